"""How a gateway keeps answers: sealed, with tags by which they are found, within quotas, until they are removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cache import Inventory, NoEmbedder, RedisEntries, Selector
from gateway.settings.errors import SettingsError
from gateway.settings.explain import problems
from gateway.settings.reading import Settings, read_encrypt_keys
from gateway.store.client import StoreClient
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream, delta
from tests.valkey import Valkey, running_valkey

TEXT = "Which pills does Zyxgard take?"
ONE, TWO = "11" * 32, "22" * 32
SECRET = b"s" * 32  # running_gateway's


@asynccontextmanager
async def stores() -> AsyncIterator[tuple[Valkey, Valkey]]:
    async with running_valkey() as durable, running_valkey() as cache:
        yield durable, cache


async def seal_refused(gateway: RunningGateway) -> float:
    snapshot = gateway.plane.metrics.registry
    return snapshot.get_sample_value("echogate_cache_seal_refused_total") or 0.0


async def test_a_sealed_store_tells_nothing_and_keys_are_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAL_ONE", ONE)
    monkeypatch.setenv("SEAL_TWO", TWO)
    async with (
        stores() as (durable, cache),
        ScriptedUpstream() as upstream,
        StoreClient.open(cache.url) as store,
    ):

        async def asked(*sources: str, text: str = TEXT) -> tuple[str, float]:
            sealed = {"deadline_ms": 2000, "encrypt_key": sources}
            async with running_gateway(
                upstream, valkey=durable, cache_url=cache.url, store=sealed
            ) as gateway:
                reply = await gateway.chat(text)
                await gateway.idle()
                return reply.headers["x-cache"], await seal_refused(gateway)

        assert await asked("env:SEAL_ONE") == ("MISS", 0)
        await store.execute("CONFIG", "SET", "rdbcompression", "no")  # else DUMP hides what it holds
        values = [await store.execute("DUMP", name) for name in await store.execute("KEYS", "*")]
        assert not any(b"Zyxgard" in value or b"kettle" in value for value in values)
        assert await asked("env:SEAL_ONE") == ("HIT-EXACT", 0)
        assert await asked("env:SEAL_TWO", "env:SEAL_ONE") == ("HIT-EXACT", 0)
        assert await asked("env:SEAL_TWO", "env:SEAL_ONE", text="What is a kettle for?") == ("MISS", 0)
        assert await asked("env:SEAL_TWO", text="What is a kettle for?") == ("HIT-EXACT", 0)
        assert await asked("env:SEAL_TWO") == ("MISS", 1)


@asynccontextmanager
async def looked_through(gateway: RunningGateway) -> AsyncIterator[Inventory]:
    async with StoreClient.open(gateway.valkey.url, deadline_s=2) as store:
        yield Inventory(RedisEntries(store, secret=SECRET), NoEmbedder(), secret=SECRET)


@pytest.mark.parametrize(
    "name", ["tenant", "service", "key", "model", "version", "request", "user", "safety_identifier"]
)
async def test_an_answer_is_found_and_erased_by_what_it_has_to_do_with(name: str) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        other = await gateway.new_key("umbrella", "batch")
        who: Any = {"user": "u1", "safety_identifier": "s1"}
        reply = await gateway.chat(TEXT, **who)
        await gateway.chat(TEXT, key=other, model="m2", user="u2", safety_identifier="s2")
        await gateway.idle()
        tags: Mapping[str, str] = {
            "tenant": "acme",
            "service": "web",
            "key": gateway.key.split("-")[1],
            "model": "m1",
            "version": "m1@r1",
            "request": reply.headers["x-echogate-request-id"],
            "user": "u1",
            "safety_identifier": "s1",
        }
        async with looked_through(gateway) as inventory:
            assert (await inventory.invalidate(Selector())).found == 2
            done = await inventory.invalidate(Selector(tags={name: tags[name]}), dry_run=False)
        assert (done.found, done.removed) == (1, 1)
        assert (await gateway.chat(TEXT, **who)).headers["x-cache"] == "MISS"
        again = await gateway.chat(TEXT, key=other, model="m2", user="u2", safety_identifier="s2")
        assert again.headers["x-cache"] == "HIT-EXACT"


async def test_an_answer_still_being_given_is_not_kept_if_its_version_was_removed_meanwhile() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([delta("a"), 0.5, delta("b")])
        async with gateway.chat_stream(TEXT) as reply, looked_through(gateway) as inventory:
            pieces = reply.aiter_bytes()
            await anext(pieces)
            await inventory.invalidate(Selector(tags={"version": "m1@r1"}), dry_run=False)
            async for _ in pieces:
                pass
        await gateway.idle()
        assert (await gateway.chat(TEXT)).headers["x-cache"] == "MISS"
        await gateway.idle()
        assert (await gateway.chat(TEXT)).headers["x-cache"] == "HIT-EXACT"


async def test_a_tenant_keeps_within_its_quota_and_no_other_pays_for_it() -> None:
    quotas = {"quota": {"entries": 100}, "quotas": {"acme": {"entries": 2}}}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=quotas) as gateway:
        other = await gateway.new_key("umbrella")
        for key in (gateway.key, other):
            for number in range(4):
                await gateway.chat(f"What are {number} kettles for?", key=key)
                await gateway.idle()
        outcomes = {
            key: [
                (
                    await gateway.chat(
                        f"What are {number} kettles for?",
                        key=key,
                        headers={"cache-control": "only-if-cached"},
                    )
                ).status_code
                for number in range(4)
            ]
            for key in (gateway.key, other)
        }
        assert outcomes[gateway.key].count(200) == 2
        assert outcomes[other] == [200] * 4


@pytest.mark.parametrize(("asked_s", "most_s"), [(100_000, 60), (30, 30), (None, 60)])
async def test_a_request_may_shorten_an_answers_life_and_not_prolong_it(
    asked_s: int | None, most_s: int
) -> None:
    limits = {"ttl_s": 3600, "namespaces": {"default": {"ttl_s": 60}}}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=limits) as gateway:
        await gateway.chat(TEXT, cache={} if asked_s is None else {"ttl": asked_s})
        await gateway.idle()
        async with StoreClient.open(gateway.valkey.url) as store:
            (name,) = await store.execute("KEYS", "*:e:*")
            assert 0.8 * most_s * 1000 < await store.execute("PTTL", name) <= most_s * 1000


@pytest.mark.parametrize("value", [ONE, "SEAL_ONE", "env:", "vault:x", ""])
def test_a_key_in_place_of_its_source_is_refused_and_not_repeated(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHOGATE_STORE__ENCRYPT_KEY", value)
    with pytest.raises(SettingsError) as refusal:
        Settings.load(None)
    assert "store.encrypt_key" in str(refusal.value)
    assert ONE not in str(refusal.value)


@pytest.mark.parametrize("held", [None, "", "zz" * 32, "11" * 31, "11" * 33])
def test_a_key_that_is_not_there_or_no_key_is_named_by_its_source(
    held: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    if held is not None:
        path.write_text(held)
        monkeypatch.setenv("SEAL_ONE", held)
    for source in ("env:SEAL_ONE", f"file:{path}"):
        with pytest.raises(SettingsError, match=r"openssl rand -hex 32") as refusal:
            read_encrypt_keys([source])
        assert source in str(refusal.value)
        assert not held or held not in str(refusal.value)
        sections = {"store": {"encrypt_key": source}}
        assert [each for each in problems(Settings(**sections)) if source in each]  # type: ignore[arg-type]


def test_a_key_is_read_from_a_file_with_a_newline_and_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(ONE + "\n")
    monkeypatch.setenv("SEAL_TWO", TWO)
    found = read_encrypt_keys([f"file:{tmp_path / 'key'}", "env:SEAL_TWO"])
    assert found == [bytes.fromhex(ONE), bytes.fromhex(TWO)]
