"""Owns this process's vector indexes: one for each space that was ever written to, bounded in all.

The event loop says what is in a space; the embed thread keeps its index. Changes are noted on the loop, where
they cost nothing, and applied by the next search of that space on the thread: the loop never waits for a
search to end, the index needs no lock, and a search sees every change noted before it began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..identity import is_of_namespace
from ..interfaces import VectorIndex
from ..model import Vector

_NEIGHBOURS = 8


class Space:
    """One index with the changes it has not seen yet. `ids` belongs to the loop, the index to the thread."""

    __slots__ = ("_index", "_new_index", "_unseen", "ids")

    def __init__(self, new_index: Callable[[int], VectorIndex]) -> None:
        # In order of arrival, so that the oldest can be let go first.
        self.ids: dict[int, None] = {}
        self._new_index = new_index
        self._index: VectorIndex | None = None
        # Appending here and taking from the other end there are both atomic.
        self._unseen: deque[tuple[int, Vector | None]] = deque()

    @property
    def unseen(self) -> int:
        return len(self._unseen)

    def add(self, entry_id: int, vector: Vector) -> None:
        self.ids[entry_id] = None
        self._unseen.append((entry_id, vector))

    def remove(self, entry_id: int) -> None:
        if entry_id in self.ids:
            del self.ids[entry_id]
            self._unseen.append((entry_id, None))

    def search(self, vector: Vector) -> list[tuple[int, float]]:
        """The nearest, best first. On the embed thread only."""
        if self._index is None:
            self._index = self._new_index(len(vector))
        while self._unseen:
            entry_id, added = self._unseen.popleft()
            if added is None:
                self._index.remove(entry_id)
            else:
                self._index.add(entry_id, added)
        return self._index.search(vector, _NEIGHBOURS)


class Spaces:
    """All spaces of a process. On the loop only. Over `most_vectors` the space unused for longest goes."""

    def __init__(self, new_index: Callable[[int], VectorIndex], *, most_vectors: int = 100_000) -> None:
        self._new_index = new_index
        self._most_vectors = most_vectors
        self._spaces: dict[bytes, Space] = {}  # least recently used first
        self._vectors = 0

    def __repr__(self) -> str:
        return f"Spaces({len(self._spaces)} spaces, {self._vectors} of {self._most_vectors} vectors)"

    def __len__(self) -> int:
        """Vectors in all."""
        return self._vectors

    def find(self, space: bytes) -> Space | None:
        """The space if anything is in it: else there is nothing a text could be compared with."""
        found = self._spaces.pop(space, None)
        if found is not None:
            self._spaces[space] = found
        return found

    def add(self, space: bytes, entry_id: int, vector: Vector) -> None:
        """An id that is known stays as it is: it names one text, and a text has one vector in a space."""
        found = self.find(space)
        if found is None:
            found = self._spaces[space] = Space(self._new_index)
        if entry_id not in found.ids:
            found.add(entry_id, vector)
            self._vectors += 1
            self._make_room(found)

    def remove(self, space: bytes, entry_id: int) -> None:
        found = self._spaces.get(space)
        if found is not None and entry_id in found.ids:
            found.remove(entry_id)
            self._vectors -= 1
            if not found.ids:
                del self._spaces[space]

    def remove_from_namespace(self, tag: bytes, entry_id: int) -> None:
        """For those who know the entry but not its partition."""
        for name in [name for name in self._spaces if is_of_namespace(name, tag)]:
            self.remove(name, entry_id)

    def drop_namespace(self, tag: bytes) -> None:
        for name in [name for name in self._spaces if is_of_namespace(name, tag)]:
            self._vectors -= len(self._spaces.pop(name).ids)

    def _make_room(self, newest: Space) -> None:
        while self._vectors > self._most_vectors:
            name, oldest = next(iter(self._spaces.items()))
            # Written to all the time and never searched, its changes would pile up: then it goes as a whole.
            if oldest is newest and oldest.unseen < 2 * self._most_vectors:
                oldest.remove(next(iter(oldest.ids)))
                self._vectors -= 1
            else:
                del self._spaces[name]
                self._vectors -= len(oldest.ids)
