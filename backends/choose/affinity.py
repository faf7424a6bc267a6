"""Which member a key belongs to, without anyone keeping a table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def ranked(key: str, names: Sequence[str]) -> list[int]:
    """Positions in `names`, best first: rendezvous hashing, so that a member that comes or goes moves only the keys
    that are or become its own."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16)

    def points(at: int) -> bytes:
        mine = digest.copy()
        mine.update(names[at].encode())
        return mine.digest()

    return sorted(range(len(names)), key=points, reverse=True)
