"""The index of a space against comparing with every vector: `make bench NAME=index`, `N=` limits the largest size.

Vectors are made from those of real texts, turned a little, so that they lie about as texts do. What is asked are
stored vectors turned a little more: the true nearest is then near enough to be accepted, and everything that is
not found is a hit lost. `STORAGE=float16` and the like choose how vectors are kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from cache import Plan, Space, Spaces
from cache.index.plan import Storage

from .vectors import embedded

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
SIZES = (10_000, 100_000, 1_000_000)
NAME = bytes(32)
QUERIES = 1_000
THRESHOLD = 0.9  # asked are neighbours of at least this cosine
CLOSE = 1e-4
FOREVER_S = 1e12
CHANGES_FOR_S = 3.0
REMOVED = 500
COLUMNS = ("n", "flat_ms", "p50_ms", "p99_ms", "recall_at_1", "remove_ms", "add_per_s", "mb")

Rows = NDArray[np.float32]


def main() -> None:
    faiss.omp_set_num_threads(1)
    most = int(os.environ.get("N", SIZES[-1]))
    base = embedded(real_texts())
    base = base[np.linalg.norm(base, axis=1) > 0]
    print(f"{len(base)} real texts; one thread; vectors kept as {storage()}")
    on_real_texts(base)
    rows = [measured(base, n) for n in sorted({min(n, most) for n in SIZES})]
    print(json.dumps({"bench": "index", "rows": rows}))


def storage() -> Storage:
    return cast(Storage, os.environ.get("STORAGE", "float32"))


def real_texts() -> list[str]:
    """Of the evaluation data beside the checkout, or of the file that `STREAM` names: lines like theirs."""
    named = [DATA / f"{name}.jsonl" for name in ("banking77-train", "clinc-oos", "qqp-calib")]
    files = [Path(os.environ["STREAM"])] if "STREAM" in os.environ else named
    if missing := [str(file) for file in files if not file.is_file()]:
        sys.exit(
            f"error: vectors are made from real texts, and there is no {missing[0]}; STREAM= names another file"
        )
    texts: dict[str, None] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            texts.update(dict.fromkeys(record[key] for key in ("text", "a", "b") if key in record))
    return list(texts)


def on_real_texts(base: Rows) -> None:
    """Nothing turned: some texts are stored, in clusters though they are few, and others asked."""
    shuffled = np.random.default_rng(1).permutation(base)
    asked, stored = np.split(shuffled, [len(base) // 4])
    spaces = Spaces(Plan(storage=storage(), flat=len(stored) // 2), most_bytes=64 << 30)
    for entry_id, vector in enumerate(stored):
        spaces.add(NAME, entry_id, vector, expires_at_s=FOREVER_S)
    settle(spaces)
    space = spaces.find(NAME)
    assert space is not None
    cosines = asked @ stored.T
    rows = np.flatnonzero(cosines.max(axis=1) >= THRESHOLD)
    found = [space.search(asked[row])[0][0] for row in rows]
    is_right = cosines[rows, found] >= cosines[rows].max(axis=1) - CLOSE  # some texts are there twice
    print(
        f"real texts, {len(stored)} stored and {len(rows)} asked that are near one: recall {np.mean(is_right):.4f}"
    )
    spaces.close()


def turned(rows: Rows, *, least: float, most: float, dice: np.random.Generator) -> Rows:
    """Each at a cosine between the two from where it was."""
    noise = dice.standard_normal(rows.shape, dtype=np.float32)
    noise -= np.sum(noise * rows, axis=1, keepdims=True) * rows
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    cosines = dice.uniform(least, most, (len(rows), 1)).astype(np.float32)
    made: Rows = cosines * rows + np.sqrt(1 - cosines * cosines) * noise
    return made


def measured(base: Rows, n: int) -> dict[str, float]:
    dice = np.random.default_rng(n)
    vectors = np.empty((n + n // 10, base.shape[1]), dtype=np.float32)
    for begin in range(0, len(vectors), 50_000):
        part = vectors[begin : begin + 50_000]
        part[:] = turned(base[dice.integers(0, len(base), len(part))], least=0.6, most=0.95, dice=dice)
    stored = vectors[:n]
    queries = turned(stored[dice.integers(0, n, QUERIES)], least=THRESHOLD, most=0.99, dice=dice)
    flat_ms, truth = compared_with_all(stored, queries)

    before_mb = resident_mb()
    spaces = Spaces(Plan(storage=storage()), most_bytes=64 << 30)
    began = time.perf_counter()
    for entry_id in range(n):
        spaces.add(NAME, entry_id, stored[entry_id], expires_at_s=FOREVER_S)
    settle(spaces)
    built_s = time.perf_counter() - began
    space = spaces.find(NAME)
    assert space is not None
    assert space.index is not None
    mb = resident_mb() - before_mb

    took_ms, found = searched(space, queries)
    recall = float(np.mean(found == truth))
    row = {
        "n": n,
        "flat_ms": flat_ms,
        "p50_ms": float(np.percentile(took_ms, 50)),
        "p99_ms": float(np.percentile(took_ms, 99)),
        "recall_at_1": recall,
        "remove_ms": removal_ms(spaces, space, n),
        "add_per_s": changes_per_s(spaces, space, vectors, n, queries),
        "mb": mb,
    }
    index = space.index
    assert index is not None
    print(
        f"{n}: {index.probes} of {index.clusters} clusters looked into, drawn in {index.rebuild_s:.1f} s, all built "
        f"in {built_s:.1f} s; {flat_ms / row['p50_ms']:.0f} times as fast as comparing with all; own estimate of "
        f"recall {spaces.state().recall}; {row['add_per_s']:.0f} adds and as many removals a second while searching"
    )
    spaces.close()
    return {name: round(row[name], 4) for name in COLUMNS}


def compared_with_all(stored: Rows, queries: Rows) -> tuple[float, NDArray[np.int64]]:
    """Milliseconds for one query, and the true nearest of all of them."""
    flat = faiss.IndexFlatIP(stored.shape[1])
    flat.add(stored)
    took_ms = [timed_ms(partial(flat.search, queries[at : at + 1], 8)) for at in range(30)]
    truth: NDArray[np.int64] = np.asarray(flat.search(queries, 1)[1][:, 0])
    return float(np.median(took_ms)), truth


def searched(space: Space, queries: Rows) -> tuple[list[float], NDArray[np.int64]]:
    took_ms, found = [], []
    for query in queries:
        began = time.perf_counter()
        neighbours = space.search(query)
        took_ms.append((time.perf_counter() - began) * 1e3)
        found.append(neighbours[0][0])
    return took_ms, np.array(found)


def removal_ms(spaces: Spaces, space: Space, n: int) -> float:
    """From the word to the vector being gone."""
    index = space.index
    assert index is not None

    def remove(entry_id: int) -> None:
        spaces.remove(NAME, entry_id)
        index.catch_up()

    picked = random.Random(n).sample(range(n), REMOVED)
    return float(np.median([timed_ms(partial(remove, entry_id)) for entry_id in picked]))


def changes_per_s(spaces: Spaces, space: Space, vectors: Rows, n: int, queries: Rows) -> float:
    """One is added and one removed, over and over, while another thread searches without a pause."""
    ended = threading.Event()

    def search() -> None:
        at = 0
        while not ended.is_set():
            space.search(queries[at % len(queries)])
            at += 1

    searching = threading.Thread(target=search)
    searching.start()
    began, added = time.perf_counter(), 0
    index = space.index
    assert index is not None
    while time.perf_counter() - began < CHANGES_FOR_S and n + added < len(vectors):
        spaces.add(NAME, n + added, vectors[n + added], expires_at_s=FOREVER_S)
        spaces.remove(NAME, added)
        added += 1
        if index.waiting > 1_000:
            index.catch_up()
    while index.catch_up():
        pass
    took_s = time.perf_counter() - began
    ended.set()
    searching.join()
    return added / took_s


def settle(spaces: Spaces) -> None:
    assert asyncio.run(spaces.settle(within_s=3_600))


def timed_ms(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
