"""Reads the Prometheus text format: sums and maxima of a few exactly named metrics out of hundreds of lines."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

# What follows a name: labels, which may hold braces, spaces and escaped quotes, then the value.
_REST = re.compile(r'(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[ \t]+([^ \t\r\n]+)')


class Total(NamedTuple):
    """All series of one metric: engines of one server, mostly."""

    sum: float
    max: float


def read(text: str, names: Iterable[str]) -> Mapping[str, Total]:
    """The metrics of these names that are there; each is matched as a whole, so that no other that begins alike counts.

    Values that are no finite numbers are passed over. Names are looked for one by one, which is several times quicker
    than to take a page apart line by line.
    """
    page = "\n" + text
    totals = {}
    for name in names:
        values = [value for value in _values(page, "\n" + name) if math.isfinite(value)]
        if values:
            totals[name] = Total(sum(values), max(values))
    return totals


def _values(page: str, start: str) -> Iterator[float]:
    at = page.find(start)
    while at >= 0:
        at += len(start)
        rest = _REST.match(page, at)
        if rest is not None:
            with contextlib.suppress(ValueError):
                yield float(rest[1])
        at = page.find(start, at)
