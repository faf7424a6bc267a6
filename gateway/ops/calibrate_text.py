"""Says in lines of text what a calibration found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from .calibrate import Counts
from .curve import Curve, Point

_SHOWN = 0.05  # between thresholds; the JSON has them all


def pairs_text(found: Sequence[Counts]) -> Iterator[str]:
    yield f"{'policy':9}{'cosine':>7}  {'kind':16}{'pairs':>7}{'served':>8}{'false':>7}{'true':>7}{'F':>8}{'kept':>8}"
    for counts in found:
        if not _is_shown(counts.threshold):
            continue
        wrong = f"{100 * counts.false / counts.served:.1f}%" if counts.served else "-"
        kept = f"{100 * counts.true / counts.true_pairs:.1f}%" if counts.true_pairs else "-"
        yield (
            f"{counts.policy:9}{counts.threshold:7.2f}  {counts.kind:16}{counts.pairs:7}{counts.served:8}"
            f"{counts.false:7}{counts.true:7}{wrong:>8}{kept:>8}"
        )


def curve_text(curve: Curve) -> Iterator[str]:
    yield f"{'policy':9}{'at':>7}{'hits':>9}{'F':>9}   {'90% interval':16}{'E':>8}{'1st serve':>11}{'judge calls':>13}"
    yield from (
        _line(point) for point in curve.points if point.budget is not None or _is_shown(point.threshold)
    )
    yield ""
    for budget, threshold in curve.recommended.items():
        advice = (
            "not enough evidence for any threshold" if threshold is None else f"threshold {threshold:.2f}"
        )
        yield f"budget {100 * budget:g}%: policy guarded, {advice}"
    plain = [point for point in curve.points if point.policy == "fixed" and point.threshold == 0.82]
    if plain and plain[0].by_kind:
        yield ""
        yield "wrong hits of the rule `fixed 0.82` by the veto that stops them:"
        yield from (f"  {kind:12}{count:6}" for kind, count in plain[0].by_kind.items())


def shadow_heading(found: dict[str, Any]) -> str:
    """Above the curve of a namespace that was looked back on."""
    since = datetime.fromtimestamp(found["since"], UTC).strftime("%Y-%m-%d %H:%M")
    corrected = "corrected for its errors" if found["is_corrected"] else "uncorrected"
    return (
        f"{found['tenant']}/{found['namespace']}/{found['model']}: {found['audits']} audits since {since} UTC, "
        f"judged by {', '.join(found['judged_by'])}, {corrected}"
    )


def _line(point: Point) -> str:
    at = f"{point.threshold:.2f}" if point.budget is None else f"{100 * point.budget:g}%"
    interval = f"[{100 * point.f_low:.2f}, {100 * point.f_high:.2f}]"
    return (
        f"{point.policy:9}{at:>7}{100 * point.hit_rate:8.1f}%{100 * point.f:8.2f}%   {interval:16}"
        f"{100 * point.e:7.2f}%{point.first_serve or '-':>11}{point.judge_calls:13}"
    )


def _is_shown(threshold: float) -> bool:
    return threshold == 0.82 or abs(threshold / _SHOWN - round(threshold / _SHOWN)) < 0.01
