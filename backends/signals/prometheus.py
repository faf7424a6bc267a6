"""Reads the Prometheus text format: sums and maxima of a few exactly named metrics out of hundreds of lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

# Labels may hold braces, spaces and escaped quotes.
_LABELS = r'(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?'


class Total(NamedTuple):
    """All series of one metric: engines of one server, mostly."""

    sum: float
    max: float


class Reader:
    """Knows the names that are wanted; each is matched as a whole, so that no other that begins alike counts."""

    def __init__(self, names: Iterable[str]) -> None:
        wanted = "|".join(re.escape(name) for name in sorted(names))
        self._line = re.compile(rf"^({wanted}){_LABELS}[ \t]+([^ \t\r\n]+)", re.MULTILINE)

    def read(self, text: str) -> Mapping[str, Total]:
        """Metrics that are there. A value that is no finite number is passed over."""
        totals: dict[str, Total] = {}
        for name, written in self._line.findall(text):
            try:
                value = float(written)
            except ValueError:
                continue
            if not math.isfinite(value):
                continue
            before = totals.get(name)
            totals[name] = (
                Total(value, value) if before is None else Total(before.sum + value, max(before.max, value))
            )
        return totals
