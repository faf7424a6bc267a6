"""What counts as a caller's trace, by W3C Trace Context, and what counts as not sent."""

from __future__ import annotations

import pytest

from gateway.telemetry.tracecontext import NOTHING, read_headers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()


def test_a_traceparent_is_read() -> None:
    parent = read_headers([(b"traceparent", GOOD)]).parent
    assert parent is not None
    assert (parent.trace_id, parent.span_id, parent.is_sampled) == (int(TRACE, 16), int(SPAN, 16), True)


@pytest.mark.parametrize(
    ("flags", "is_sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_only_the_lowest_flag_says_sampled(flags: str, is_sampled: bool) -> None:
    parent = read_headers([(b"traceparent", f"00-{TRACE}-{SPAN}-{flags}".encode())]).parent
    assert parent is not None
    assert parent.is_sampled is is_sampled


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"00",
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"ff-{TRACE}-{SPAN}-01".encode(),
        GOOD.upper(),
        f"00-{TRACE}-{SPAN}".encode(),
        f"00-{TRACE[:-1]}-{SPAN}-01".encode(),
        f"00-{TRACE}0-{SPAN}-01".encode(),
        GOOD + b"-more",
        GOOD + b"x",
        GOOD + b"\r\nx: y",
        b"00-" + b"a" * 10_000,
        b"cc-" + GOOD[3:] + b"-" + b"a" * 10_000,
        "00-４bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".encode(),
        b"\xff\xfe",
    ],
)
def test_a_malformed_traceparent_counts_as_not_sent(value: bytes) -> None:
    assert read_headers([(b"traceparent", value)]).parent is None


def test_two_traceparents_count_as_not_sent() -> None:
    assert read_headers([(b"traceparent", GOOD), (b"traceparent", GOOD)]).parent is None


def test_a_future_version_may_have_more_parts() -> None:
    assert read_headers([(b"traceparent", b"cc" + GOOD[2:] + b"-what-the-future-will-be-like")]).parent
    assert read_headers([(b"traceparent", b"cc" + GOOD[2:] + b".what")]).parent is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([b"a=1"], "a=1"),
        ([b"a=1,b=2"], "a=1,b=2"),
        ([b"a=1", b"b=2"], "a=1,b=2"),
        ([b" a=1 ,\tb=2 ,, "], "a=1,b=2"),
        ([b"tenant@vendor=x y"], "tenant@vendor=x y"),
        ([b"A=1"], ""),
        ([b"a"], ""),
        ([b"a=1,a=2"], ""),
        ([b"a=1;\xff"], ""),
        ([b"a=" + b"v" * 256], "a=" + "v" * 256),
        ([b"a=" + b"v" * 257], ""),
        ([b",".join(b"k%d=v" % n for n in range(32))], ",".join(f"k{n}=v" for n in range(32))),
        ([b",".join(b"k%d=v" % n for n in range(33))], ""),
        ([b",".join(b"k%d=v" % n for n in range(600))], ""),
        ([b"a=1", b"x" * 100_000], ""),
    ],
)
def test_a_tracestate_is_passed_on_whole_or_not_at_all(headers: list[bytes], expected: str) -> None:
    parent = read_headers([(b"traceparent", GOOD), *((b"tracestate", one) for one in headers)]).parent
    assert parent is not None
    assert parent.tracestate == expected


def test_a_tracestate_without_a_traceparent_means_nothing() -> None:
    assert read_headers([(b"tracestate", b"a=1"), (b"baggage", b"x" * 100_000)]) is NOTHING


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"abc-1", "abc-1"),
        (b"a" * 128, "a" * 128),
        (b"a" * 129, None),
        (b"", None),
        (b"a\x00b", None),
        (b"a\nb", None),
        (b"\xc3\xa9", None),
    ],
)
def test_a_request_id_is_short_printable_ascii_or_replaced(value: bytes, expected: str | None) -> None:
    assert read_headers([(b"x-request-id", value)]).request_id == expected
