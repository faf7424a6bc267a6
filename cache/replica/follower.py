"""Follows the change streams of all shards, so that this process's indexes hold what any process stored.

A shard whose stream it cannot follow from where it is (at the start without a snapshot, fallen behind the trimming,
another store) it makes anew from the vectors that the store keeps, and follows from there. A store that is down is
waited for. What is missed or comes twice does no harm: an index proposes, the store decides.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from redis.exceptions import ResponseError

from .. import changes
from ..entries.sealing import Seal
from ..errors import StoreUnavailable
from ..identity import SHARDS, changes_key, fingerprint_tag, is_of_fingerprint, tag_of_space
from ..index import Spaces
from ..interfaces import Store
from .place import End, Place, Trail, moment
from .snapshot_file import Contents

_BLOCK_S = 2.0
_GRACE_S = 3.0
_LOOK_EVERY_S = 2.0
_AT_ONCE = 64  # of each stream
_MOST_NAMESPACES = 1 << 18
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0


class Vectors(Protocol):
    """The part of the entry store from which an index is made anew."""

    @property
    def seal(self) -> Seal: ...

    def scan_vectors(self, shard: int) -> AsyncIterator[list[changes.Added]]: ...


class Follower:
    """`store` is a connection of its own: its commands block. The owner runs `run` and cancels it.

    `since` is of the snapshot whose spaces are there already.
    """

    def __init__(
        self,
        store: Store,
        vectors: Vectors,
        spaces: Spaces,
        *,
        secret: bytes,
        fingerprint: str,
        since: Contents | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.caught_up = asyncio.Event()  # set once everything that was there at the start has been read
        self.rebuilds: Counter[str] = Counter()  # of shards, by why: "start", "behind", "reset"
        self.applied = 0  # changes
        self.passed_over = 0  # vectors of other embedders
        self._store = store
        self._vectors = vectors
        self._spaces = spaces
        self._tag = fingerprint_tag(secret, fingerprint)
        self._now = now
        self._wall = wall
        # None: not known where, so it has to be made from the store.
        self._trails: list[Trail | None] = [None] * SHARDS
        self._shards: dict[bytes, int] = {}  # by namespace tag
        if since is not None:
            self._trails = [Trail(place) for place in since.places]
            self._shards = dict(since.shards)
        self._next_look_s = 0.0
        self._lag_s = 0.0
        self._lost_touch_s: float | None = now()

    def __repr__(self) -> str:
        state = "caught up" if self.caught_up.is_set() else "reading"
        return f"Follower({state}, {self.lag_s:.1f} s and {self.items_behind} items behind, {self._spaces!r})"

    @property
    def lag_s(self) -> float:
        """Seconds between a change and its being known here, of the last one; as long as the store does not answer,
        the time grows. It compares the store's clock with this host's."""
        return self._lag_s if self._lost_touch_s is None else self._now() - self._lost_touch_s

    @property
    def items_behind(self) -> int:
        """Changes not applied yet, when it was last looked."""
        return sum(trail.behind for trail in self._trails if trail is not None)

    @property
    def places(self) -> list[Place] | None:
        """Where in the streams this process is: all before that is in its spaces. None until all shards have one."""
        places = [trail.place for trail in self._trails if trail is not None]
        return places if len(places) == SHARDS else None

    @property
    def shards(self) -> dict[bytes, int]:
        """The shards of namespaces, by their tags."""
        return dict(self._shards)

    async def load(self, space: bytes) -> list[changes.Added]:
        """All that the store keeps of a space. Raises `StoreUnavailable`."""
        shard = self._shards.get(tag_of_space(space))
        found = []
        for each in range(SHARDS) if shard is None else (shard,):
            async for page in self._vectors.scan_vectors(each):
                found += [added for added in page if added.space == space]
        return found

    async def run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._look()  # at once: it may be another store since
                while True:
                    await self._read()
                    self._lost_touch_s = None
                    pause_s = _FIRST_PAUSE_S
                    if self._now() >= self._next_look_s:
                        await self._look()
            except (OSError, ResponseError, StoreUnavailable):
                # Down, or not ready: the store client knows and says why; here it only means to wait.
                if self._lost_touch_s is None:
                    self._lost_touch_s = self._now()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _look(self) -> None:
        """Find out whether what was read is all there was, and make anew what is not."""
        for shard, end in enumerate(await self._ends()):
            trail = self._trails[shard]
            why = "start" if trail is None else trail.look_at(end)
            if why is not None:
                await self._rebuild(shard, end, why)
        self._next_look_s = self._now() + _LOOK_EVERY_S

    async def _ends(self) -> list[End]:
        deadline = self._now() + _GRACE_S
        asked = [
            self._store.execute("XINFO", "STREAM", changes_key(shard), deadline=deadline)
            for shard in range(SHARDS)
        ]
        replies = await asyncio.gather(*asked, return_exceptions=True)
        return [_end(reply) for reply in replies]

    async def _rebuild(self, shard: int, end: End, why: str) -> None:
        """From what the store keeps, then on from `end`: what changed during the scan is in the stream behind it."""
        self._trails[shard] = None
        found: dict[bytes, set[int]] = {}
        async for page in self._vectors.scan_vectors(shard):
            for added in page:
                if self._add(added, shard):
                    found.setdefault(added.space, set()).add(added.entry_id)
            await asyncio.sleep(0)
        await self._keep_only(found, shard)
        self._trails[shard] = Trail(end.place)
        self.rebuilds[why] += 1

    async def _keep_only(self, found: Mapping[bytes, set[int]], shard: int) -> None:
        for space in self._spaces:
            if self._shards.get(tag_of_space(space.name), shard) == shard:
                kept = found.get(space.name, set())
                for at, entry_id in enumerate(list(space.ids)):
                    if entry_id not in kept:
                        self._spaces.remove(space.name, entry_id)
                    if at % _AT_ONCE == 0:
                        await asyncio.sleep(0)

    async def _read(self) -> None:
        is_new = not self.caught_up.is_set()
        block = () if is_new else ("BLOCK", int(_BLOCK_S * 1000))
        names = [changes_key(shard).encode() for shard in range(SHARDS)]
        reply = await self._store.execute(
            "XREAD",
            "COUNT",
            _AT_ONCE,
            *block,
            "STREAMS",
            *names,
            *(trail.item_id for trail in self._trails if trail is not None),
            deadline=self._now() + _BLOCK_S + _GRACE_S,
        )
        for stream, items in reply or ():
            self._follow(names.index(stream), items)
            await asyncio.sleep(0)  # others' turn: this took up to a millisecond or two
        if not reply:
            self._lag_s = 0.0
        if not reply or not any(trail.is_behind for trail in self._trails if trail is not None):
            self.caught_up.set()

    def _follow(self, shard: int, items: list[Any]) -> None:
        trail = self._trails[shard]
        assert trail is not None, "all are known where once it was looked"
        for item_id, fields in items:
            self._apply(fields, shard)
            if trail.step(item_id) is not None:
                self._next_look_s = 0.0  # which finds the same, and makes the shard anew
        self._lag_s = max(0.0, self._wall() - moment(items[-1][0])[0] / 1000)

    def _apply(self, fields: list[Any], shard: int) -> None:
        self.applied += 1
        match changes.decode(fields[1], self._vectors.seal):
            case changes.Added() as added:
                self._add(added, shard)
            case changes.Removed(space, entry_id):
                self._spaces.remove(space, entry_id)
            case changes.Flushed(tag):
                self._spaces.drop_namespace(tag)

    def _add(self, added: changes.Added, shard: int) -> bool:
        if not is_of_fingerprint(added.space, self._tag):
            self.passed_over += 1
            return False
        if added.expires_at_s <= self._wall():
            return False
        self._shards[tag_of_space(added.space)] = shard
        if len(self._shards) > _MOST_NAMESPACES:
            del self._shards[next(iter(self._shards))]
        self._spaces.add(added.space, added.entry_id, added.vector, expires_at_s=added.expires_at_s)
        return True


def _end(reply: Any) -> End:
    """Of a stream that is not there: nothing was ever added."""
    if isinstance(reply, ResponseError) and "no such key" in str(reply):
        return End()
    if isinstance(reply, BaseException):
        raise reply
    facts = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    return End(facts[b"last-generated-id"], facts[b"entries-added"], facts[b"length"])
