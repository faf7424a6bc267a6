"""A shelf of vectors: looked up and written in parts, and a store that is away is not asked for each of them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cache import Answer, Hit, Miss, NoEmbedder, Policy, Question
from gateway.data.shelf import Shelf
from tests.cache.house import House, Moody, built
from tests.cache.parts import asked


def house() -> House:
    return built(Policy(), NoEmbedder(), Moody())


def questions(count: int) -> list[Question]:
    return [replace(asked(f"{number:064d}"), skip_semantic="embeddings") for number in range(count)]


def calls_of(house: House, name: str) -> list[Any]:
    seen: list[Any] = []
    own = getattr(house.entries, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        seen.append(arguments)
        return own(*arguments, **named)

    setattr(house.entries, name, counted)
    return seen


async def test_what_was_kept_is_found_in_its_place() -> None:
    at = house()
    shelf = Shelf(at.cache, store_deadline_s=1)
    found = await shelf.look_up(questions(100))
    assert {type(each) for each in found} == {Miss}
    pairs = [
        (each.ticket, Answer("", b"%d" % number))
        for number, each in enumerate(found)
        if isinstance(each, Miss) and each.ticket
    ]
    assert await shelf.keep(pairs, ttl_s=None) == "stored"
    again = await shelf.look_up(questions(100)[::-1])
    assert [each.entry.answer.payload for each in again if isinstance(each, Hit)] == [
        b"%d" % number for number in range(99, -1, -1)
    ]
    assert all(await shelf.tickets(questions(100)))


async def test_a_store_that_is_away_is_asked_for_a_part_and_not_for_the_rest() -> None:
    at = house()
    shelf = Shelf(at.cache, store_deadline_s=1)
    tickets = [ticket for ticket in await shelf.tickets(questions(100)) if ticket]
    at.entries.is_down = True
    looked, written = calls_of(at, "find"), calls_of(at, "put")
    assert [each.reason for each in await shelf.look_up(questions(100)) if isinstance(each, Miss)] == [
        "store-down"
    ] * 100
    assert len(looked) < 50
    looked.clear()
    assert await shelf.tickets(questions(100)) == [None] * 100
    assert len(looked) < 50
    assert await shelf.keep([(ticket, Answer("", b"1")) for ticket in tickets], ttl_s=None) == "store-down"
    assert len(written) < 50
