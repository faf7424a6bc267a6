"""Records are read as they were written, exported and imported whole, and refused when they are not ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auth import (
    SCOPES,
    Budget,
    KeyRecord,
    KeyRef,
    Limits,
    OldSecret,
    Policy,
    Priority,
    Record,
    Service,
    StoreDirectory,
    Tenant,
    UnreadableRecord,
    exported,
    facts_of,
    imported,
    mint,
)
from auth.identity.records import decoded, encoded
from gateway.store.client import StoreClient
from tests.valkey import running_valkey

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
MOMENTS = st.floats(0, 1e11, allow_nan=False)
COUNTS = st.none() | st.integers(1, 1_000_000_000)
POLICIES = st.builds(
    Policy,
    models=st.none() | st.lists(st.sampled_from(["*", "m1", "meta-llama/*", "a?"]), max_size=3).map(tuple),
    scopes=st.none() | st.frozensets(st.sampled_from(sorted(SCOPES))),
    cache_scope=st.none() | st.sampled_from(["tenant", "service", "user"]),
    cache_mode=st.none() | st.sampled_from(["off", "exact", "shadow", "semantic"]),
    shared_pool=st.none() | st.booleans(),
    priority=st.none() | st.sampled_from(Priority),
)
LIMITS = st.builds(
    Limits,
    requests_per_s=st.none() | st.floats(10, 5_000),
    requests_per_min=COUNTS,
    tokens_per_min=COUNTS,
    concurrent=COUNTS,
    budget=st.none()
    | st.builds(
        Budget,
        amount=st.floats(0.01, 1e9),
        unit=st.sampled_from(["tokens", "money"]),
        period=st.sampled_from(["day", "month"]),
    ),
)
SET: dict[str, Any] = {
    "created_at_s": MOMENTS,
    "policy": POLICIES,
    "limits": LIMITS,
    "metadata": st.dictionaries(st.text(min_size=1, max_size=64), st.text(max_size=50), max_size=3),
    "disabled_at_s": st.none() | MOMENTS,
}
DIGESTS = st.binary(min_size=32, max_size=32)
KEYS = st.builds(
    KeyRecord,
    key_id=st.from_regex(r"[a-z0-9]{12}", fullmatch=True),
    tenant=NAMES,
    service=NAMES,
    name=st.text(max_size=128),
    secret_sha256=DIGESTS,
    old_secret=st.none() | st.builds(OldSecret, DIGESTS, MOMENTS),
    expires_at_s=st.none() | MOMENTS,
    **SET,
)
ANY = KEYS | st.builds(Tenant, name=NAMES, **SET) | st.builds(Service, tenant=NAMES, name=NAMES, **SET)


@settings(deadline=None)
@given(ANY)
def test_record_is_read_as_it_was_written(record: Record) -> None:
    assert decoded(type(record), encoded(record)) == record


@settings(deadline=None)
@given(ANY)
def test_record_is_imported_as_it_was_exported(record: Record) -> None:
    assert imported(json.loads(json.dumps(exported(record)))) == record


@settings(deadline=None)
@given(KEYS)
def test_facts_hold_nothing_of_the_secrets(key: KeyRecord) -> None:
    told = json.dumps(facts_of(key))
    digests = [key.secret_sha256, *([key.old_secret.sha256] if key.old_secret else [])]

    assert not any(digest.hex() in told for digest in digests)
    assert "sha256" not in told
    assert "sha256" not in repr(key)


def a_key() -> KeyRecord:
    return mint(tenant="acme", service="web", name="", created_at_s=1.0)[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "user"}, "kind"),
        ({"format": 2}, "format"),
        ({"secret": "eg-…"}, "'secret'"),
        ({"secret_sha256": "abc"}, "SHA-256"),
        ({"secret_sha256": None}, "SHA-256"),
        ({"old_secret": {"sha256": "00", "ends_at_s": 1}}, "SHA-256"),
        ({"old_secret": "x"}, "read"),
        ({"tenant": "a b"}, "tenant"),
        ({"tenant": 5}, "read"),
        ({"key_id": "short"}, "id"),
        ({"limits": {"requests_per_s": 1.0}}, "requests_per_s"),
        ({"limits": {"requests": 1.0}}, "'requests'"),
        ({"limits": {"budget": {"amount": 1, "unit": "tokens", "period": "day", "of": 1}}}, "'of'"),
        ({"policy": {"scopes": ["admin"]}}, "read"),
        ({"policy": {"models": ["a b"]}}, "model"),
        ({"created_at_s": "yesterday"}, "read"),
    ],
)
def test_anything_else_is_not_imported(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        imported(exported(a_key()) | change)


@pytest.fixture
async def store() -> AsyncIterator[StoreClient]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        yield store


@pytest.mark.parametrize(
    "stored", [b"acme/web \x92\x02\xa3new", b"acme/web \x99\x02", b"acme/web ", b"rubbish", b""]
)
async def test_record_of_an_unknown_form_is_unreadable(store: StoreClient, stored: bytes) -> None:
    directory, key = StoreDirectory(store), a_key()
    await directory.add(key)
    await store.execute("HSET", "eg:{k}:records", f"k/{key.key_id}", stored)

    with pytest.raises(UnreadableRecord):
        await directory.find(key.key_id)
    with pytest.raises(UnreadableRecord):
        await directory.get(KeyRef(key.key_id))


async def test_newer_format_is_named(store: StoreClient) -> None:
    directory, key = StoreDirectory(store), a_key()
    await directory.add(key)
    stored = encoded(key).replace(b" \x92\x01", b" \x92\x02")
    await store.execute("HSET", "eg:{k}:records", f"k/{key.key_id}", stored)

    with pytest.raises(UnreadableRecord, match="format 2"):
        await directory.find(key.key_id)


async def test_key_without_its_tenant_is_unreadable(store: StoreClient) -> None:
    directory, key = StoreDirectory(store), a_key()
    await directory.add(key)
    await store.execute("HDEL", "eg:{k}:records", "t/acme")

    with pytest.raises(UnreadableRecord):
        await directory.find(key.key_id)


async def test_all_of_the_directory_lies_in_one_slot(store: StoreClient) -> None:
    directory, key = StoreDirectory(store), a_key()
    await directory.add(key)
    await directory.note_use({key.key_id: 1_000.0})
    await directory.change(KeyRef(key.key_id), lambda it: replace(it, name="another"))

    names = await store.execute("KEYS", "*")
    assert len(names) == 7
    assert all(b"{k}" in name for name in names)
