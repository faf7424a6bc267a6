"""The cache from an admin's terminal: a real `serve` of two workers, and the commands as they are typed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.commands.main import app
from tests.e2e.deployment import Deployment, deployed, environment, until
from tests.scripted import ScriptedUpstream

ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"
ELSE = "When does the library open on Sundays?"


async def typed(echogate: Deployment, *arguments: str) -> tuple[int, str, str]:
    """Exit status, what it said, and its complaints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "cache", *arguments, "--config", str(echogate.config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    said, complained = await process.communicate()
    return process.returncode or 0, said.decode(), complained.decode()


async def told(echogate: Deployment, *arguments: str) -> Any:
    """The same in this process, as JSON: a new one takes seconds to start on a busy machine."""
    line = ["cache", *arguments, "--config", str(echogate.config), "--json"]
    result = await asyncio.to_thread(CliRunner().invoke, app, line)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def outcomes(echogate: Deployment, key: str, text: str) -> set[str]:
    """Of enough requests for both workers to have had some."""
    only = {"cache-control": "only-if-cached"}
    replies = await asyncio.gather(*(echogate.ask(text, key=key, headers=only) for _ in range(12)))
    return {reply.headers["x-cache"] for reply in replies}


def is_private(path: str) -> bool:
    return Path(path).stat().st_mode & 0o077 == 0


async def stored(echogate: Deployment, key: str, *texts: str) -> None:
    for text in texts:
        await echogate.ask(text, key=key)

    async def is_everywhere() -> bool:
        return await outcomes(echogate, key, SAME) == {"HIT-SEMANTIC"}

    await until(is_everywhere, within_s=30)


@pytest.mark.full
@pytest.mark.timeout(300)
async def test_an_admin_looks_removes_and_moves_what_the_cache_keeps(tmp_path: Path) -> None:
    shown = {"ECHOGATE_ADMIN__SHOWS_TEXTS": "true"}
    async with (
        ScriptedUpstream() as upstream,
        deployed(tmp_path / "data", upstream.base_url, workers=2, variables=shown) as echogate,
    ):
        made = await echogate.create_key()
        key, key_id = str(made["key"]), str(made["id"])
        await stored(echogate, key, ASKED, ELSE)

        # looked at
        async def is_counted() -> bool:
            found = await told(echogate, "stats", "--tenant", "acme")
            return [each["entries"] for each in found["namespaces"]] == [2]

        await until(is_counted, within_s=20)
        status, said, _ = await typed(echogate, "stats")
        assert status == 0
        assert "acme" in said
        assert "2 vectors in 1 partitions" in said
        entries = await told(echogate, "inspect", "--tenant", "acme")
        assert len(entries) == 2
        (shown_one,) = await told(echogate, "inspect", entries[0]["id"], "--texts")
        assert shown_one["question"] in (ASKED, ELSE)
        (cluster,) = await told(echogate, "clusters", "acme", "--texts")
        assert (cluster["size"], set(cluster["examples"])) == (2, {ASKED, ELSE})

        # taken out, removed after a dry run, and taken in
        file = str(tmp_path / "entries.jsonl")
        assert (await told(echogate, "export", file, "--tenant", "acme"))["entries"] == 2
        assert (await typed(echogate, "export", file))[0] == 1  # it is there already
        assert is_private(file)
        dry = await told(echogate, "invalidate", "--key", key_id)
        assert (dry["found"], dry["removed"]) == (2, 0)
        assert await outcomes(echogate, key, SAME) == {"HIT-SEMANTIC"}
        done = await told(echogate, "invalidate", "--key", key_id, "--yes")
        assert (done["found"], done["removed"]) == (2, 2)
        for text in (ASKED, SAME):
            assert await outcomes(echogate, key, text) == {"MISS"}
        assert (await told(echogate, "import", file))["outcomes"] == {"stored": 2}
        await stored(echogate, key)
        assert await outcomes(echogate, key, ASKED) == {"HIT-EXACT"}

        # by likeness, for every worker, and what else is there stays
        done = await told(echogate, "invalidate", "--alike", SAME, "--min-similarity", "0.9", "--yes")
        assert done["removed"] == 1
        assert await outcomes(echogate, key, ASKED) == {"MISS"}
        assert await outcomes(echogate, key, ELSE) == {"HIT-EXACT"}
        flushed = await told(echogate, "flush", "--tenant", "acme", "--namespace", "default", "--yes")
        assert [each["model"] for each in flushed["namespaces"]] == ["m1"]
        assert await outcomes(echogate, key, ELSE) == {"MISS"}

        # what is typed wrong says so, and does nothing
        status, _, complained = await typed(echogate, "invalidate", "--yes")
        assert (status, "say which entries" in complained) == (1, True)
        status, _, complained = await typed(echogate, "invalidate", "--user", "u1", "--yes")
        assert (status, "needs the tenant" in complained) == (1, True)
