"""What a search gives: pairs of an entry's id and its cosine, best first, and the cluster that each lies in."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Neighbours(list[tuple[int, float]]):
    """`clusters` has a number for each pair: the list of the index, as it is drawn now, that the vector falls in."""

    __slots__ = ("clusters",)

    def __init__(self, pairs: Iterable[tuple[int, float]] = (), clusters: Iterable[int] = ()) -> None:
        super().__init__(pairs)
        self.clusters = list(clusters)

    @property
    def facts(self) -> dict[str, str | int | float | bool]:
        """How many there are, and the cluster of the nearest."""
        facts: dict[str, str | int | float | bool] = {"neighbours": len(self)}
        if self.clusters:
            facts["cluster"] = f"cluster_{self.clusters[0]}"
        return facts

    def first(self, k: int, *, where: Callable[[int], bool]) -> Neighbours:
        """The first k whose id is one of those asked for."""
        kept = [at for at, (entry_id, _) in enumerate(self) if where(entry_id)][:k]
        return Neighbours([self[at] for at in kept], [self.clusters[at] for at in kept])
