"""What was stored together does not expire together, and nothing lives longer than it may."""

from __future__ import annotations

import pytest

from cache import NoEmbedder, Policy
from tests.cache.house import House, Moody, built
from tests.cache.parts import ANSWER, asked, soon


async def lives(house: House, ttl_s: float | None) -> list[float]:
    found = []
    for number in range(200):
        question = asked(f"question {number}")
        ticket = await house.cache.ticket(question, deadline=soon())
        assert ticket is not None
        assert (await house.cache.store(ticket, ANSWER, ttl_s=ttl_s)).is_stored
        entry = (await house.entries.find(question, ticket.entry_id, deadline=soon())).entry
        assert entry is not None
        found.append(entry.expires_at_s - house.clock())
    return found


@pytest.mark.parametrize(("ttl_s", "most_s"), [(None, 60.0), (10.0, 10.0)], ids=["usual", "own"])
async def test_lives_are_spread_over_a_tenth_and_the_same_in_every_worker(
    ttl_s: float | None, most_s: float
) -> None:
    one, other = (built(Policy(), NoEmbedder(), Moody()) for _ in range(2))
    found = await lives(one, ttl_s)
    assert all(0.9 * most_s <= life_s <= most_s + 1e-6 for life_s in found)
    assert max(found) - min(found) > 0.08 * most_s
    assert await lives(other, ttl_s) == pytest.approx(found)
