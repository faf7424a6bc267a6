"""docs/telemetry.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from gateway.telemetry.docs import telemetry_markdown
from gateway.telemetry.metrics_table import METRICS
from gateway.telemetry.span_table import ATTRIBUTES, SPANS

DOCUMENT = Path(__file__).parents[2] / "docs" / "telemetry.md"


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == telemetry_markdown(), (
        "run: echogate docs telemetry > docs/telemetry.md"
    )


def test_every_attribute_of_a_span_is_explained() -> None:
    assert {name for span in SPANS for name in span.attributes} == set(ATTRIBUTES)


def test_names_are_used_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
