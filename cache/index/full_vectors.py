"""Whole vectors where the index holds coarse ones: they lie in a temporary file and say the true cosine of a few.

The file has no name, is gone with the process, and is SQLite's: what was read lately stays in a little memory.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .frozen import Ids

_KEY_BITS = 63
_CACHED = -8_192  # in KiB
_AT_ONCE = 500

Floats = NDArray[np.float32]


class FullVectors:
    """One a process, for any thread. What cannot be written or read (a full disk) counts as not there."""

    def __init__(self) -> None:
        self.failures = 0
        self._lock = threading.Lock()
        self._file = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        # Nothing has to survive anything.
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size={_CACHED}"):
            self._file.execute(f"PRAGMA {pragma}").fetchall()
        self._file.execute("CREATE TABLE vectors (key INTEGER PRIMARY KEY, vector BLOB)")

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def put(self, keys: list[int], vectors: Floats) -> bool:
        """Whether all are there now."""
        rows = zip(keys, (row.tobytes() for row in vectors), strict=True)
        return self._tell("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def remove(self, keys: list[int]) -> None:
        self._tell("DELETE FROM vectors WHERE key = ?", ((key,) for key in keys))

    def get(self, keys: list[int]) -> dict[int, Floats]:
        """Those that are there."""
        marks = ",".join("?" * len(keys))
        asked = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 - question marks only
        try:
            with self._lock:
                found = self._file.execute(asked, keys).fetchall()
        except sqlite3.Error:
            self.failures += 1
            return {}
        return {key: np.frombuffer(vector, dtype=np.float32) for key, vector in found}

    def _tell(self, what: str, rows: Iterable[tuple[object, ...]]) -> bool:
        try:
            with self._lock:
                self._file.executemany(what, rows)
        except sqlite3.Error:
            self.failures += 1
            return False
        return True


class FullVectorsOfOne:
    """The part of one index. Two of them may hold the same id."""

    def __init__(self, full: FullVectors) -> None:
        self._full = full
        self._salt = secrets.randbits(_KEY_BITS)

    def put(self, ids: Ids, vectors: Floats) -> bool:
        return all(
            self._full.put(self._keys(ids[begin : begin + _AT_ONCE]), vectors[begin : begin + _AT_ONCE])
            for begin in range(0, len(ids), _AT_ONCE)
        )

    def remove(self, ids: Ids) -> None:
        for begin in range(0, len(ids), _AT_ONCE):
            self._full.remove(self._keys(ids[begin : begin + _AT_ONCE]))

    def rows(self, ids: Ids, dimension: int) -> tuple[NDArray[np.bool_], Floats]:
        """Which are there, and their vectors."""
        is_there = np.zeros(len(ids), dtype=np.bool_)
        rows = np.zeros((len(ids), dimension), dtype=np.float32)
        for begin in range(0, len(ids), _AT_ONCE):
            keys = self._keys(ids[begin : begin + _AT_ONCE])
            found = self._full.get(keys)
            for at, key in enumerate(keys, begin):
                if (row := found.get(key)) is not None:
                    is_there[at], rows[at] = True, row
        return is_there, rows[is_there]

    def _keys(self, ids: Ids) -> list[int]:
        return [(entry_id ^ self._salt) for entry_id in ids.tolist()]
