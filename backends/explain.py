"""Makes what the books hold readable: a member as it stands, and a choice with its reasons."""

from __future__ import annotations

import random

from .books import Books
from .choose import Versions, meets
from .facts import Explanation, MemberView
from .model import Affinity, Member, Needs, Version
from .router import Router


def view(router: Router, member: Member, version: Version) -> MemberView:
    books, now_s = router[member.name], router.clock()
    load = books.load(workers=router.live_workers(), now_s=now_s)
    return MemberView(
        member=member.name,
        model=version.model,
        revision=version.revision,
        tier=member.tier,
        state=books.state,
        drained_for=books.drained_for,
        standing=books.standing(now_s),
        breaker=books.breaker.state(now_s),
        ejections=books.breaker.openings,
        in_flight=books.in_flight.count,
        load=load,
        score=load / books.weight,
        weight=member.weight,
        measured_weight=books.weight,
        pace=books.pace,
        health=books.health,
        warmth=books.warmup.factor(now_s),
        errors=books.vitals.errors(now_s),
        first_token_s=books.vitals.first_token_s,
        signals=books.signals,
    )


def explain(
    router: Router, versions: Versions, version: Version, *, needs: Needs, affinity: Affinity
) -> Explanation:
    pool, members = router.pools[version.model], versions.members(version)
    # A die of its own: asking changes nothing of what comes next.
    chosen, candidates = router.choose(
        version.model,
        members,
        needs=needs,
        affinity=affinity,
        rng=random.Random(),  # noqa: S311
    )
    usable = {books.member.name for books in router.usable(router.eligible(members, needs))}
    of = versions.of(version.model)
    passed_over = {
        member.name: _why_not(router[member.name], of[member.name] == version, usable, needs, router.clock())
        for member in pool.members
        if member.name != chosen.name
    }
    return Explanation(
        version=version,
        policy=pool.policy,
        member=chosen.name,
        reason=_why(affinity, pool.policy, len(usable)),
        candidates=candidates,
        passed_over=passed_over,
        members=tuple(view(router, member, of[member.name]) for member in pool.members),
    )


def _why(affinity: Affinity, policy: str, usable: int) -> str:
    if usable == 1:
        return "the only usable member"
    if affinity.session is not None:
        return "the member of its session"
    if policy == "prefix" and affinity.prefix is not None:
        return "the member of its prefix that has room"
    return f"chosen by {policy} among {usable} usable members"


def _why_not(books: Books, is_of_version: bool, usable: set[str], needs: Needs, now_s: float) -> str:
    if not is_of_version:
        return "serves another version"
    if books.drained_for is not None:
        return f"{books.state}: {books.drained_for}"
    if not meets(books.member.capabilities, needs):
        return "cannot serve this request"
    if books.member.name in usable:
        return "usable, and not chosen this time"
    standing = books.standing(now_s)
    return f"left out: {standing}" if standing != "in" else "of a lower tier"
