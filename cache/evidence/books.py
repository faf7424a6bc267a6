"""Owns this worker's evidence: sends what it finds out, follows what all workers found out together.

    note → every tick: send events → one worker, by lease: add up, judge, publish → every tick: all take the standing

All of it off the path of requests, which only read a `Ruling` in memory. The durable store holds for each namespace a
stream of events, the ledger they add up to, and the standing that is served by; and one stream of blocked pairs. A
store that is away is waited for: what was found out meanwhile is kept, up to a bound, and requests go by what is known.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any

from redis.exceptions import ResponseError

from ..acceptance import Reading, WordStatistics
from ..interfaces import Argument, Store
from . import events, ledger
from .blocking import BlockedPairs
from .correction import Measured
from .events import Event, Row
from .learning import Weights
from .ledger import Standing
from .page import Keys, Page, lent_to
from .ruling import Ruling
from .standing import Rules, assess

_NAMES = "eg:{evidence}:namespaces"
_FIELD = "e"
_EVENTS_KEPT = 20_000  # batches: what may wait to be added up
_PENDING = 2_000  # events that wait for the store
_AT_ONCE = 10_000
_NAMESPACES = 4_096
_FOLLOWED_AT_ONCE = 512
_COMMAND_S = 2.0

# Whoever was slower than another one's judgement must not write over it.
# KEYS: version, ledger, published, events. ARGV: version that was read, new version, ledger, published, position.
_SETTLE = """
if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[3])
redis.call('SET', KEYS[3], ARGV[4])
redis.call('XTRIM', KEYS[4], 'MINID', ARGV[5])
redis.call('XDEL', KEYS[4], ARGV[5])
return 1
"""


class Books:
    """`rules` says what was decided for a namespace, `measured` how judges err. The owner runs `run` and cancels it.

    `settle_every_s`: how often, at most, a namespace is judged anew. `tick_s`: how late another worker's finding may
    come here.
    """

    def __init__(
        self,
        store: Store,
        *,
        secret: bytes,
        rules: Callable[[str], Rules],
        measured: Measured = lambda _: None,
        tick_s: float = 0.25,
        settle_every_s: float = 2.0,
        server_id: Callable[[], str | None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.blocked = BlockedPairs(store, server_id=server_id, now=now)
        self.dropped = 0  # events that did not fit while the store was away
        self.drift_alarms = 0  # raised by what this worker added up
        self._store = store
        self._secret = secret
        self._rules = rules
        self._measured = measured
        self._tick_s = tick_s
        self._settle_every_ms = max(1, int(settle_every_s * 1000))
        self._now = now
        self._wall = wall
        self._pages: dict[str, Page] = {}
        self._followed = 0

    def __repr__(self) -> str:
        return f"Books({len(self._pages)} namespaces, {self.blocked.known!r}, {self.dropped} dropped)"

    def of(self, namespace: str) -> Ruling:
        return self._page(namespace).ruling

    def note(self, namespace: str, *found: Event) -> None:
        page = self._page(namespace)
        if len(page.pending) + len(found) > _PENDING:
            self.dropped += len(found)
        else:
            page.pending.extend(found)

    def note_traffic(self, namespace: str, row: Row) -> None:
        page = self._page(namespace)
        if len(page.traffic) < _PENDING:
            page.traffic.append(row)

    def note_text(self, namespace: str, reading: Reading) -> None:
        self._page(namespace).note_text(reading)

    def known(self) -> list[Standing]:
        """How those namespaces stand that this worker has met."""
        return [page.ruling.standing for page in self._pages.values()]

    async def standings(self) -> dict[str, Standing]:
        """Of all namespaces that any worker has met, as last published. Raises OSError."""
        names = sorted(name.decode() for name in await self._send("SMEMBERS", _NAMES))
        kept = await asyncio.gather(
            *(self._send("GET", Keys(self._secret, name).published) for name in names)
        )
        found = {name: ledger.published(data) for name, data in zip(names, kept, strict=True)}
        return {name: published.standing for name, published in found.items() if published is not None}

    async def ledger_of(self, namespace: str) -> ledger.Ledger:
        """All that was added up of a namespace. Raises OSError."""
        kept = await self._send("GET", Keys(self._secret, namespace).ledger)
        return await asyncio.to_thread(ledger.decode, kept)

    def revisit(self) -> None:
        """What findings are judged by has changed: judge all namespaces anew, whether or not there is news of them."""
        for page in self._pages.values():
            page.has_unsettled = page.is_due = True

    async def catch_up(self) -> None:
        """Read what is blocked and how namespaces stand; to be awaited before serving. Raises OSError."""
        await self.blocked.follow()
        for name in await self._send("SMEMBERS", _NAMES):
            self._page(name.decode())
        for _ in range(0, len(self._pages), _FOLLOWED_AT_ONCE):
            await self._follow()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            # Apart: however much there is to add up here, what others found is heard of in time.
            group.create_task(self._every_tick(self._hear))
            group.create_task(self._every_tick(self._tell))

    async def tick(self) -> None:
        """Send, settle, follow: once. Raises OSError where the store is away."""
        await self._tell()
        await self._hear()

    async def _every_tick(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            try:
                await work()
            except (OSError, ResponseError):
                continue  # away, or not ready: the client says so; what is pending waits

    async def _hear(self) -> None:
        await self.blocked.follow()
        await self._follow()

    async def _tell(self) -> None:
        for page in list(self._pages.values()):
            await self._flush(page)
        for page in [page for page in self._pages.values() if page.has_unsettled]:
            await self._settle(page)

    def _page(self, namespace: str) -> Page:
        page = self._pages.get(namespace)
        if page is None:
            if len(self._pages) >= _NAMESPACES:
                del self._pages[next(iter(self._pages))]
            ruling = Ruling(self._rules(namespace), self.blocked.known, secret=self._secret)
            page = self._pages[namespace] = Page(namespace, ruling, secret=self._secret)
        return page

    async def _flush(self, page: Page) -> None:
        found = page.take(self._secret, at_s=self._wall())
        if not found:
            return
        try:
            if not page.is_named:
                await self._send("SADD", _NAMES, page.namespace)
                page.is_named = True
            await self._send(
                "XADD", page.keys.events, "MAXLEN", "~", _EVENTS_KEPT, "*", _FIELD, events.encode(found)
            )
        except (OSError, ResponseError):
            kept = found + page.pending
            self.dropped += max(0, len(kept) - _PENDING)
            page.pending = kept[-_PENDING:]
            raise
        page.has_unsettled = True

    async def _settle(self, page: Page) -> None:
        """Add up and judge, unless another worker does or just did."""
        keys = page.keys
        lease = await self._send("SET", keys.lease, secrets.token_bytes(8), "NX", "PX", self._settle_every_ms)
        if lease is None:
            return
        version, kept = await self._send("MGET", keys.version, keys.ledger)
        known = await asyncio.to_thread(ledger.decode, kept)
        items = await self._send("XRANGE", keys.events, b"(" + known.position, "+", "COUNT", _AT_ONCE)
        page.has_unsettled = len(items) == _AT_ONCE
        if not items and not page.is_due:
            return
        page.is_due = False
        batches = [fields[1] for _, fields in items]
        known.position = items[-1][0] if items else known.position
        alarms = known.drift.alarms
        settled, published = await asyncio.to_thread(
            self._judged, known, batches, rules=page.ruling.rules, lent=lent_to(page, self._pages.values())
        )
        before = version or b"0"
        after = int(before) + 1
        is_first = await self._script(
            _SETTLE,
            keys=[keys.version, keys.ledger, keys.published, keys.events],
            args=[before, after, settled, published, known.position],
        )
        if is_first:
            self.drift_alarms += known.drift.alarms - alarms

    def _judged(
        self, known: ledger.Ledger, batches: list[bytes], *, rules: Rules, lent: Weights | None
    ) -> tuple[bytes, bytes]:
        for batch in batches:
            known.add(events.decode(batch))
        before = known.standing.state
        known.standing = assess(known, rules, at_s=self._wall(), lent=lent, measured=self._measured)
        if known.standing.state == "tripped" != before:
            known.traffic.clear()  # hits of a time that is over
        return ledger.encode(known), ledger.publish(known)

    async def _follow(self) -> None:
        """The next of the namespaces, of which there may be more than are worth asking for at once."""
        pages = list(self._pages.values())[self._followed : self._followed + _FOLLOWED_AT_ONCE]
        self._followed = self._followed + _FOLLOWED_AT_ONCE if len(pages) == _FOLLOWED_AT_ONCE else 0
        if not pages:
            return
        versions = await self._send("MGET", *(page.keys.version for page in pages))
        for page, version in zip(pages, versions, strict=True):
            if version is not None and version != page.version:
                self._take(page, await self._send("GET", page.keys.published))
                page.version = version

    def _take(self, page: Page, data: bytes | None) -> None:
        found = ledger.published(data)
        if found is not None:
            ruling = page.ruling
            ruling.standing, ruling.raised, ruling.aliases = found.standing, found.raised, found.aliases
            ruling.words = WordStatistics(self._secret, texts=found.texts, counts=found.words)

    def _send(self, *command: Argument) -> asyncio.Future[Any]:
        return self._store.execute(*command, deadline=self._now() + _COMMAND_S)

    async def _script(self, source: str, *, keys: list[str], args: list[Argument]) -> Any:
        return await self._store.script(source, keys=keys, args=args, deadline=self._now() + _COMMAND_S)
