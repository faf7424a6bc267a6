"""What is taken out of one deployment answers in another, under its own names and rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cache import AesGcmSeal, Answer, Inventory, NotAnEntry, RedisEntries, Selector, Transfer
from cache.identity import entry_id, partition
from tests.cache.kept import NAMESPACE, Kept, kept
from tests.cache.parts import SECRET, asked, soon

OTHER = b"another deployment's secret"
TEXT = 'Which "quoted" question with \x00 and many more words is naïve?'
ANSWER = Answer("Paris 🙂 中文", bytes(range(256)), {"backend": "b"})


def transfer(
    where: Kept, secret: bytes = SECRET, most_ttl_s: float = 3600.0
) -> tuple[RedisEntries, Transfer]:
    entries = RedisEntries(where.store, secret=secret, wall=where.clock, seal=where.entries.seal)
    made = Transfer(entries, where.embed, secret=secret, most_ttl_s=most_ttl_s, wall=where.clock)
    return entries, made


async def exported(where: Kept) -> list[bytes]:
    _, out = transfer(where)
    found = [header async for page in where.inventory.headers(Selector()) for header in page]
    return [line for line in [await out.line(header) for header in found] if line is not None]


@pytest.mark.parametrize("is_similar", [True, False], ids=["similar", "exact only"])
@pytest.mark.parametrize("secret", [SECRET, OTHER], ids=["same deployment", "another"])
async def test_an_entry_comes_out_and_in_as_it_was(secret: bytes, is_similar: bool) -> None:
    async with kept(seal=AesGcmSeal([b"k" * 32])) as where:
        await where.put(TEXT, answer=ANSWER, tags={"user": "u"}, is_similar=is_similar)
        (line,) = await exported(where)
        await where.store.execute("FLUSHALL")
        entries, there = transfer(where, secret)
        assert await there.take_in(line) == "stored"

        of = partition(secret, NAMESPACE, b"model=m")
        named = entry_id(secret, of, TEXT)
        found = (await entries.find(asked(TEXT, of=of), named, deadline=soon())).entry
        assert found is not None
        assert (found.question, found.answer.text) == (TEXT, ANSWER.text)
        assert (found.answer.payload, found.answer.origin) == (ANSWER.payload, ANSWER.origin)
        assert found.expires_at_s == where.clock() + 60
        inventory = Inventory(entries, where.embed, secret=secret, wall=where.clock)
        by_user = await inventory.invalidate(Selector(tags={"user": "u"}))
        assert by_user.found == (1 if secret == SECRET else 0)
        headers = [each async for page in inventory.headers(Selector()) for each in page]
        assert [set(each.tags) for each in headers] == [{"user"} if secret == SECRET else set()]
        shards = [each for shard in range(16) async for page in entries.scan_vectors(shard) for each in page]
        assert [each.entry_id for each in shards] == ([named] if is_similar else [])


async def test_what_comes_in_lives_no_longer_than_is_allowed_here() -> None:
    async with kept() as where:
        await where.put("one", ttl_s=10_000)
        (line,) = await exported(where)
        _, there = transfer(where, most_ttl_s=100)
        assert await there.take_in(line) == "stored"
        entry = await where.find("one")
        assert entry is not None
        assert entry.expires_at_s == where.clock() + 100


async def test_what_has_expired_meanwhile_stays_out() -> None:
    async with kept() as where:
        await where.put("one", ttl_s=50)
        (line,) = await exported(where)
        where.clock.at_s += 51
        _, there = transfer(where)
        assert await there.take_in(line) == "expired"


def changed(line: bytes, **members: Any) -> bytes:
    return json.dumps(json.loads(line) | members).encode()


@pytest.mark.parametrize(
    "members",
    [
        {"format": "echogate-entry/2"},
        {"source": "AAAA"},
        {"payload": "not base64!"},
        {"question": None},
        {"expires_at_s": "soon"},
        {"surprise": 1},
        {"origin": {"backend": 1}},
    ],
    ids=str,
)
async def test_a_line_that_is_no_entry_is_refused_without_repeating_it(members: dict[str, Any]) -> None:
    async with kept() as where:
        await where.put("Zyxgard")
        (line,) = await exported(where)
        await where.store.execute("FLUSHALL")
        _, there = transfer(where)
        with pytest.raises(NotAnEntry) as refusal:
            await there.take_in(changed(line, **members))
        assert "Zyxgard" not in str(refusal.value)
        assert await where.store.execute("KEYS", "*:e:*") == []


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b"\xff", b"{}"])
async def test_rubbish_is_refused(line: bytes) -> None:
    async with kept() as where:
        with pytest.raises(NotAnEntry):
            await transfer(where)[1].take_in(line)


async def test_a_line_beyond_the_limit_is_refused() -> None:
    async with kept() as where:
        await where.put("one")
        (line,) = await exported(where)
        assert await transfer(where)[1].take_in(changed(line, text="x" * (2 << 20))) == "too-large"
