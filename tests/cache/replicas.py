"""A master with one replica: two real servers, without sentinels."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.clusters import GroupServer, until


@contextmanager
def master_and_replica() -> Iterator[tuple[GroupServer, GroupServer]]:
    with tempfile.TemporaryDirectory(prefix="eg-") as folder, ExitStack() as stack:
        master = GroupServer(Path(folder) / "a", "--repl-diskless-sync-delay", "0")
        replica = GroupServer(Path(folder) / "b", "--replicaof", f"127.0.0.1 {master.port}")
        for server in (master, replica):
            server.start()
            stack.callback(server.kill)
        until(replica.answers)
        until(lambda: replica.facts("INFO", "replication")["master_link_status"] == "up")
        yield master, replica
