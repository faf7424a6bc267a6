"""A worker's index over restarts: from the host's snapshot where there is a good one, else from the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from cache.identity import SHARDS
from cache.testing import HashEmbedder
from gateway.admin.index import Anew, index_told
from gateway.commands.cache_index import lines
from tests.cache.prepared import prepared_model
from tests.e2e.asking import ASKED, SAME
from tests.embeddings_server import cutting, running_embeddings
from tests.running import RunningGateway, running_gateway, settings_for
from tests.scripted import ScriptedUpstream
from tests.valkey import Valkey, eventually, running_valkey


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    async with running_valkey() as running:
        yield running


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as scripted:
        yield scripted


def gateway(
    valkey: Valkey, upstream: ScriptedUpstream, folder: Path, **cache: object
) -> AbstractAsyncContextManager[RunningGateway]:
    """Its settings say where a deployment's model is; deadlines are for busy machines."""
    own = {"embedder": {"model": str(prepared_model())}, "semantic_deadline_ms": 5000} | cache
    settings = settings_for(upstream, data_dir=folder, cache=own)
    return running_gateway(upstream, valkey=valkey, settings=settings)


async def taught(running: RunningGateway) -> None:
    assert (await running.chat(ASKED)).headers["x-cache"] == "MISS"
    await running.idle()
    assert (await running.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"


def counted(running: RunningGateway, name: str) -> dict[str, float]:
    """By the one label."""
    for family in running.plane.metrics.snapshot().families:
        if family.name == name:
            return {sample.labels[0][1]: sample.value for sample in family.samples}
    raise KeyError(name)


async def test_a_start_goes_on_from_the_snapshot(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with gateway(valkey, upstream, tmp_path) as before:
        await taught(before)
    assert (tmp_path / "index" / "index.snapshot").stat().st_mode & 0o777 == 0o600
    async with gateway(valkey, upstream, tmp_path) as after:
        assert (await after.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"
        assert counted(after, "echogate_cache_snapshots") == {"restored": 1}
        assert counted(after, "echogate_cache_shards_rebuilt") == {}
        assert counted(after, "echogate_cache_follow_items_behind") == {"0": 0}


@pytest.mark.parametrize("content", [b"\x80\x04\x95 a pickle, say", b""])
async def test_a_start_makes_the_index_from_the_store_where_the_snapshot_is_none(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path, content: bytes
) -> None:
    async with gateway(valkey, upstream, tmp_path) as before:
        await taught(before)
    (tmp_path / "index" / "index.snapshot").write_bytes(content)
    async with gateway(valkey, upstream, tmp_path) as after:
        assert (await after.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"
        assert counted(after, "echogate_cache_snapshots") == {"damaged": 1}
        assert counted(after, "echogate_cache_shards_rebuilt") == {"start": SHARDS}


async def test_without_snapshots_none_is_written(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with gateway(valkey, upstream, tmp_path, snapshot_every_s=None) as before:
        await taught(before)
    assert not (tmp_path / "index").exists()


async def test_another_embedder_begins_beside_the_old_one_and_says_how_they_differ(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Vectors of 64 numbers where there were 384: nothing fails, and the old ones wait for the old embedder."""
    async with gateway(valkey, upstream, tmp_path) as before:
        await taught(before)
    with running_embeddings(cutting(HashEmbedder(), window=256)) as embeddings:
        other = {"kind": "http", "url": embeddings.base_url, "model": "m", "dimension": 64, "window": 256}
        async with gateway(valkey, upstream, tmp_path, embedder=other) as after:
            assert "384 numbers; the embedder now is http/m//64 with 64" in "".join(capsys.readouterr())
            assert (await after.chat(ASKED)).headers["x-cache"] == "HIT-EXACT"
            assert (await after.chat(SAME)).status_code == 200
    async with gateway(valkey, upstream, tmp_path) as again:
        assert (await again.chat(SAME)).status_code == 200


async def test_the_embedder_to_follow_embeds_what_is_kept_and_then_serves(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """First beside the one that serves, then alone; equal questions hit throughout, similar ones under both."""
    with running_embeddings(cutting(HashEmbedder(), window=256)) as embeddings:
        other = {"kind": "http", "url": embeddings.base_url, "model": "m", "dimension": 64, "window": 256}
        present = {"model": str(prepared_model()), "next": other}
        async with gateway(valkey, upstream, tmp_path) as first:
            await taught(first)
        async with gateway(valkey, upstream, tmp_path, embedder=present) as before:
            await eventually(lambda: counted(before, "echogate_cache_reembedded")["done"] == 1, within_s=20)
            assert (await before.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"
        async with gateway(
            valkey, upstream, tmp_path, embedder=other, threshold=0.5, policy="fixed"
        ) as after:
            assert (await after.chat(ASKED)).headers["x-cache"] == "HIT-EXACT"
            assert (await after.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"
            await eventually(lambda: counted(after, "echogate_cache_reembedded")["settled"] == 1, within_s=20)
            told = index_told(after.plane.metrics.snapshot())
            assert told.embedding_anew == Anew(left=0, done=0, unfit=0, settled=1)
            assert [(each.worker, each.items_behind) for each in told.workers] == [("0", 0)]
            assert list(lines(told.model_dump()))[1:] == [
                "made from the store: 16 start",
                "snapshots: 1 other-embedder",
                "embedding anew: 0 done, 0 to look at, 0 unreadable, 1 old vectors let go",
            ]
            assert (await after.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"
