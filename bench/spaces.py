"""Fifty thousand spaces of five entries: what one costs in memory, and a look-up in it. `make bench NAME=spaces`"""

from __future__ import annotations

import json
import os
import random
import time

import numpy as np

from cache import Spaces

from .index import FOREVER_S, resident_mb

SPACES = 50_000
ENTRIES = 5
DIMENSION = 384
LOOKUPS = 5_000
BOUND_MIB = 128


def main() -> None:
    count = int(os.environ.get("N", SPACES))
    dice = np.random.default_rng(1)
    order = random.Random(1)
    names = [dice.bytes(32) for _ in range(count)]
    vectors = dice.standard_normal((1_000, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    roomy = Spaces(most_bytes=64 << 30)
    before_mb = resident_mb()
    fill(roomy, names, vectors)
    bytes_each = (resident_mb() - before_mb) * 1e6 / count
    took_us = []
    for name in order.choices(names, k=LOOKUPS):
        began = time.perf_counter()
        found = roomy.find(name)
        assert found is not None
        assert len(found.search(vectors[0])) == ENTRIES
        took_us.append((time.perf_counter() - began) * 1e6)

    bounded = Spaces(most_bytes=BOUND_MIB << 20)
    before_mb = resident_mb()
    fill(bounded, names, vectors)
    bounded_mb = resident_mb() - before_mb
    print(f"{roomy!r}: {bytes_each:.0f} bytes a space, {ENTRIES * DIMENSION * 4} of them for its vectors")
    print(f"{bounded!r}: {bounded_mb:.0f} MB more in memory")
    result = {
        "spaces": count,
        "entries_each": ENTRIES,
        "bytes_per_space": round(bytes_each),
        "counted_per_space": round(roomy.state().bytes / count),
        "lookup_p50_us": round(float(np.percentile(took_us, 50)), 1),
        "lookup_p99_us": round(float(np.percentile(took_us, 99)), 1),
        "bound_mib": BOUND_MIB,
        "bounded_mb": round(bounded_mb, 1),
        "bounded_spaces": bounded.state().spaces,
    }
    print(json.dumps({"bench": "spaces", **result}))


def fill(
    spaces: Spaces, names: list[bytes], vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]
) -> None:
    for at in range(ENTRIES):
        for number, name in enumerate(names):
            row = vectors[(number + at) % len(vectors)]
            spaces.add(name, number * ENTRIES + at, row.copy(), expires_at_s=FOREVER_S)


if __name__ == "__main__":
    main()
