"""A sealed store tells whoever reads it nothing of what was said, and whoever writes into it is not believed."""

from __future__ import annotations

import pytest

from cache import AesGcmSeal, Answer, Unsealed
from cache.entries.sealing import Unsealable
from cache.identity import Keys
from tests.cache.kept import EMBEDDER, NAMESPACE, Kept, kept
from tests.cache.parts import SECRET, part, soon

OLD, NEW = b"o" * 32, b"n" * 32
TEXT = "which pills does Ms Zyxgard take"
ANSWER = Answer("Blorpazine", b'{"content": "Blorpazine"}', {"backend": "quirkhost"})


def test_what_is_sealed_opens_in_its_place_under_its_header_only() -> None:
    seal = AesGcmSeal([NEW])
    sealed = seal.seal(b"words", place=b"p", header=b"h")
    assert seal.open(sealed, place=b"p", header=b"h") == b"words"
    for place, header in ((b"q", b"h"), (b"p", b"g")):
        with pytest.raises(Unsealable):
            seal.open(sealed, place=place, header=header)
    assert seal.refused == 2


def test_the_same_is_sealed_differently_each_time() -> None:
    seal = AesGcmSeal([NEW])
    assert len({seal.seal(b"words", place=b"p", header=b"h") for _ in range(100)}) == 100


@pytest.mark.parametrize("at", [0, 3, 4, 15, 16, -1])
def test_a_changed_byte_anywhere_is_noticed(at: int) -> None:
    seal = AesGcmSeal([NEW])
    sealed = bytearray(seal.seal(b"words", place=b"p", header=b"h"))
    sealed[at] ^= 1
    with pytest.raises(Unsealable):
        seal.open(bytes(sealed), place=b"p", header=b"h")


@pytest.mark.parametrize("rubbish", [b"", b"\0", bytes(4), bytes(40), b"\xff" * 40])
def test_what_is_not_sealed_does_not_open(rubbish: bytes) -> None:
    with pytest.raises(Unsealable):
        AesGcmSeal([NEW]).open(rubbish, place=b"p", header=b"h")


@pytest.mark.parametrize("keys", [[], [b"short"], [NEW, b"x" * 33]])
def test_a_key_of_another_length_is_refused(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32"):
        AesGcmSeal(keys)


async def everything_in(where: Kept) -> bytes:
    """All keys and values of the store, streams and sets included."""
    found = b""
    for name in await where.store.execute("KEYS", "*"):
        found += name + (await where.store.execute("DUMP", name) or b"")
        if await where.store.execute("TYPE", name) == b"stream":
            found += repr(await where.store.execute("XRANGE", name, "-", "+")).encode()
        if await where.store.execute("TYPE", name) == b"string":
            found += await where.store.execute("GET", name)
    return found


@pytest.mark.parametrize("is_sealed", [True, False])
async def test_nothing_that_was_said_is_in_a_sealed_store(is_sealed: bool) -> None:
    async with kept(seal=AesGcmSeal([NEW]) if is_sealed else Unsealed()) as where:
        await where.put(TEXT, answer=ANSWER)
        everything = await everything_in(where)
        vector = EMBEDDER.embed(TEXT).astype("<f4").tobytes()
        said = [word in everything for word in (b"Zyxgard", b"Blorpazine", b"quirkhost", vector[:16])]
        assert said == [not is_sealed] * 4
        assert await where.find(TEXT) is not None


async def vectors_in(where: Kept) -> int:
    shard = Keys(SECRET, NAMESPACE).shard
    return sum([len(page) async for page in where.entries.scan_vectors(shard)])


async def test_a_new_key_seals_and_the_old_one_opens_until_it_is_dropped() -> None:
    async with kept(seal=AesGcmSeal([OLD])) as where:
        await where.put(TEXT)
        where.entries.seal = AesGcmSeal([NEW, OLD])
        await where.put("another")
        assert await where.has(TEXT)
        where.entries.seal = AesGcmSeal([NEW])
        assert await where.has("another")
        assert not await where.has(TEXT)
        assert await vectors_in(where) == 1
        assert where.entries.seal.refused == 2


async def test_an_entry_that_is_not_sealed_is_not_believed_where_all_are() -> None:
    async with kept() as where:
        await where.put(TEXT)
        where.entries.seal = AesGcmSeal([NEW])
        assert not await where.has(TEXT)
        assert await vectors_in(where) == 0


async def test_a_sealed_entry_is_a_miss_without_the_key() -> None:
    async with kept(seal=AesGcmSeal([NEW])) as where:
        await where.put(TEXT)
        where.entries.seal = Unsealed()
        assert not await where.has(TEXT)
        assert where.entries.seal.refused == 1


async def test_an_entry_whose_header_was_altered_is_a_miss() -> None:
    """Who can write into the store cannot prolong an entry's life, or put another's answer in its place."""
    async with kept(seal=AesGcmSeal([NEW])) as where:
        await where.put(TEXT)
        await where.put("another", answer=Answer("wrong", b"{}"))
        keys = Keys(SECRET, NAMESPACE)
        name, other = (keys.entry(where.id_of(text)) for text in (TEXT, "another"))
        record = await where.store.execute("GET", name)
        at = record.index(b"acme/default/m") + 70  # in the times
        for damaged in (
            record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :],
            await where.store.execute("GET", other),
        ):
            await where.store.execute("SET", name, damaged)
            assert not await where.has(TEXT)
            fetched = await where.entries.fetch(part(NAMESPACE), [where.id_of(TEXT)], deadline=soon())
            assert fetched == [None]
