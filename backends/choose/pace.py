"""How quick each member is beside the others, by what it finished in the last minute (`qps_ratio`)."""

from __future__ import annotations

from collections.abc import Mapping

from ..window import Window

SPAN_S = 60.0
# Ratios are made anew at the first choice after this time, which leaves room below the 800 ms that are promised.
RECOMPUTE_S = 0.5
# As much as this many requests of usual length is added to each member: a few lucky ones make nobody a champion.
_PRIOR = 3.0
_LEAST, _MOST = 0.1, 10.0
# A quick member is given more at a time and is slower for it, so what is seen understates how quick it is. This power
# makes up for it: the lowest p99 in `bench/routing.py`, where anything from 1.3 to 2 is within 2% of it.
_POWER = 1.7


def finished_window() -> Window:
    """For one member: a note for each finished request, its duration the amount."""
    return Window(span_s=SPAN_S, slices=60)


def qps_ratios(finished: Mapping[str, Window], *, now_s: float) -> dict[str, float]:
    """How each member compares in requests per second and open request; 1.0 is the usual, or not known yet.

    Per open request, since a member that is given more also finishes more: only how long one takes tells them apart.
    """
    counts = {name: window.count(now_s) for name, window in finished.items()}
    total = sum(counts.values())
    if not total:
        return dict.fromkeys(finished, 1.0)
    busy_s = {name: window.amount(now_s) for name, window in finished.items()}
    usual_s = max(sum(busy_s.values()) / total, 1e-6)
    rates = {name: (counts[name] + _PRIOR) / (busy_s[name] + _PRIOR * usual_s) for name in finished}
    mean = sum(rates.values()) / len(rates)
    return {name: min(max((rate / mean) ** _POWER, _LEAST), _MOST) for name, rate in rates.items()}
