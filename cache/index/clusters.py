"""Tells of the clusters that vectors fall in: how many lie in each, and what came of the searches that led there."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Value

_COUNTED = 4_096  # clusters, those that nothing led to for longest leave


class Cluster(Value, frozen=True):
    """Of a space, as its clusters are drawn now in this process: elsewhere, and once they are drawn anew, `drawing` is
    another. `searches`: whose nearest vector lay there, since the start or the drawing; `similarity`: its mean."""

    _unsaid = frozenset({"space"})

    space: bytes
    drawing: str
    number: int
    size: int
    searches: int = 0
    hits: int = 0
    similarity: float | None = None


@dataclass(slots=True)
class _Count:
    searches: int = 0
    hits: int = 0
    similarities: float = 0.0


class Searches:
    """Counted on the loop, read anywhere."""

    def __init__(self) -> None:
        self._counts: dict[tuple[bytes, str, int], _Count] = {}

    def note(self, space: bytes, drawing: str, number: int, *, similarity: float, is_hit: bool) -> None:
        key = (space, drawing, number)
        count = self._counts.pop(key, None) or _Count()
        count.searches += 1
        count.hits += is_hit
        count.similarities += similarity
        self._counts[key] = count
        if len(self._counts) > _COUNTED:
            del self._counts[next(iter(self._counts))]

    def told(self, space: bytes, drawing: str, number: int, *, size: int) -> Cluster:
        count = self._counts.get((space, drawing, number))
        if count is None:
            return Cluster(space, drawing, number, size)
        mean = count.similarities / count.searches
        return Cluster(space, drawing, number, size, count.searches, count.hits, mean)
