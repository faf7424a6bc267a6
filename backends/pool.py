"""The pools: the door through which requests go to members, configurations come in and facts go out.

How a choice is made is router.py's, sending sender.py's, what counts as failure `survive/`, how bytes travel `vllm.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from .choose import Revisions, Versions
from .exchange import Exchange
from .explain import explain, view
from .facts import Explanation, MemberView, Recovery, VersionCounts
from .interfaces import Backend
from .model import (
    NO_AFFINITY,
    NO_NEEDS,
    Affinity,
    Attempt,
    Member,
    Needs,
    Pool,
    Signals,
    Timeouts,
    UpstreamRequest,
    Version,
)
from .router import Router
from .sender import Sender

_REVISION_TIMEOUT_S = 2.0
_REVISION_INTERVAL_S = 60.0
_DOUBT_INTERVAL_S = 2.0

Configured = Mapping[str, Pool | Sequence[Member]]


class Pools:
    """Members by public model name; their own names are unique. `start` before use, `aclose` after; or `async with`.

    A bare sequence of members is a pool with the default policy. `live_workers` says among how many processes the
    requests to these members are shared.
    """

    def __init__(
        self,
        pools: Configured,
        *,
        backend: Backend,
        timeouts: Timeouts | None = None,
        max_event_bytes: int = 4 << 20,
        rng: random.Random | None = None,
        live_workers: Callable[[], int] = lambda: 1,
    ) -> None:
        checked = _checked(pools)
        self._backend = backend
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._router = Router(checked, clock=time.monotonic, rng=self._rng, live_workers=live_workers)
        self._revisions = Revisions(_members(checked), backend=backend, timeout_s=_REVISION_TIMEOUT_S)
        self._versions = Versions(checked, revision_of=self._revisions.__getitem__)
        self._refreshing: asyncio.Task[None] | None = None
        self._doubt = asyncio.Event()
        self._sender = Sender(
            self._router,
            backend=backend,
            timeouts=timeouts or Timeouts(),
            max_event_bytes=max_event_bytes,
            on_unreached=self._doubt.set,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Ask the servers for their revisions once (a few seconds at most), then again every minute."""
        if self._revisions.has_guesses:
            await self._refresh()
        self._refreshing = asyncio.create_task(self._keep_refreshing(), name="refresh revisions")

    async def aclose(self) -> None:
        """Stop asking and close idle connections. Exchanges must have been closed before."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        await self._backend.aclose()

    # --- what there is

    def update(self, pools: Configured) -> None:
        """Follow a new configuration at once. Raises ValueError, and changes nothing, where it cannot work.

        Requests under way finish where they are. A member that is the same server as before keeps all that is known
        of it; one that is new gets few requests until it has answered, one that is drained gets none.
        """
        checked = _checked(pools)
        self._router.update(checked)
        self._revisions.update(_members(checked))
        self._versions.update(checked)
        self._doubt.set()

    def update_signals(self, signals: Iterable[Signals]) -> None:
        """What the servers said of themselves, from this host's `Poller`, wherever it runs."""
        self._router.update_signals(signals)

    def models(self) -> list[str]:
        return list(self._router.pools)

    def resolve(self, model: str, *, sticky: str | None = None, needs: Needs = NO_NEEDS) -> Version:
        """The version this request gets, by the versions' weights. Raises `UnknownModel`.

        The same `sticky` text gets the same version while the weights stay and it has a usable member.
        """

        def is_usable(members: Sequence[Member]) -> bool:
            return self._router.is_usable(members, needs)

        return self._versions.pick(model, sticky=sticky, rng=self._rng, is_usable=is_usable)

    # --- what it tells

    def in_flight(self) -> dict[str, int]:
        """Open requests by member, of this worker."""
        return self._router.in_flight()

    def members(self) -> list[MemberView]:
        """Every member as it stands."""
        views = []
        for model, pool in self._router.pools.items():
            version_of = self._versions.of(model)
            views += [view(self._router, member, version_of[member.name]) for member in pool.members]
        return views

    def explain(
        self,
        model: str,
        *,
        sticky: str | None = None,
        needs: Needs = NO_NEEDS,
        affinity: Affinity = NO_AFFINITY,
    ) -> Explanation:
        """Where such a request would go now, and why; nothing is sent or counted. Raises as `resolve`, `open` do."""
        version = self.resolve(model, sticky=sticky, needs=needs)
        return explain(self._router, self._versions, version, needs=needs, affinity=affinity)

    def version_counts(self) -> dict[Version, VersionCounts]:
        return dict(self._router.versions)

    def take_recoveries(self) -> list[Recovery]:
        """Those since the last call."""
        taken = list(self._router.recoveries)
        self._router.recoveries.clear()
        return taken

    def __repr__(self) -> str:
        loads = ", ".join(
            f"{each.member}@{each.revision}={each.in_flight}{_remark(each)}" for each in self.members()
        )
        return f"<Pools {', '.join(self.models())}: {loads}>"

    # --- one request

    async def open(
        self,
        version: Version,
        request: UpstreamRequest,
        *,
        deadline_s: float,
        attempts: list[Attempt] | None = None,
    ) -> Exchange:
        """Send to a member of the version, once more to another if that fails before its first byte.

        `deadline_s` is a moment on `time.monotonic()` and bounds everything, the body too. Refusals (4xx) are answers.
        A 5xx is returned only when every attempt has been made; a stream is returned with its first event in it. The
        head of a whole answer comes with its body, so it may take until the deadline.
        Raises `NoBackend`, `UpstreamTimeout` or `UpstreamBroken`. `attempts`, if given, is filled in as it goes, so
        that a cancelled caller can tell what was tried.
        """
        return await self._sender.open(
            version,
            self._versions.members(version),
            request,
            deadline_s=deadline_s,
            attempts=[] if attempts is None else attempts,
        )

    # --- revisions

    async def _keep_refreshing(self) -> None:
        """Every minute; soon where a server did not answer, or was just not reached: it may come back as another."""
        while True:
            if self._revisions.are_complete:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_REVISION_INTERVAL_S):
                        await self._doubt.wait()
            self._doubt.clear()
            await self._refresh()
            await asyncio.sleep(_DOUBT_INTERVAL_S)

    async def _refresh(self) -> None:
        if await self._revisions.refresh():
            self._versions.update(self._router.pools)


def _remark(member: MemberView) -> str:
    notes = [note for note in (member.state, member.standing) if note not in ("active", "in")]
    return f" ({', '.join(notes)})" if notes else ""


def _members(pools: Mapping[str, Pool]) -> list[Member]:
    return [member for pool in pools.values() for member in pool.members]


def _checked(pools: Configured) -> dict[str, Pool]:
    checked = {model: pool if isinstance(pool, Pool) else Pool(tuple(pool)) for model, pool in pools.items()}
    seen: set[str] = set()
    for model, pool in checked.items():
        if not pool.members:
            raise ValueError(f"the pool of {model!r} has no members")
        for member in pool.members:
            if member.weight <= 0:
                raise ValueError(f"the weight of {member.name!r} is {member.weight}; it must be above 0")
            if member.name in seen:
                raise ValueError(f"two members are named {member.name!r}; names must be unique")
            seen.add(member.name)
    return checked
