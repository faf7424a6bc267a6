"""Why the body of a request is not taken: too large, too slow, of another type or coding."""

from __future__ import annotations

from ..errors import NO_RETRY, InvalidRequest, TooLarge


def too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"The body is larger than {limit_bytes} bytes; send less, or raise server.body_limit_mib.",
        headers=NO_RETRY,
    )


def too_dense(most_ratio: int) -> TooLarge:
    return TooLarge(
        f"The body unpacks to more than {most_ratio} times its size; send it without Content-Encoding.",
        headers=NO_RETRY,
    )


def too_slow(limit_s: float) -> InvalidRequest:
    error = InvalidRequest(f"The body did not arrive within {limit_s:g} seconds.", code="request_timeout")
    error.status = 408
    return error


def unsupported_type(found: bytes) -> InvalidRequest:
    error = InvalidRequest(
        f"The body comes as {found[:128].decode('latin-1')!r}; expected JSON: send Content-Type: application/json.",
        code="unsupported_media_type",
    )
    error.status = 415
    return error


def unsupported_coding(found: str, known: str) -> InvalidRequest:
    error = InvalidRequest(
        f"The body comes with the Content-Encoding {found[:64]!r}; expected one of {known}, or none.",
        code="unsupported_encoding",
        headers={"accept-encoding": known},
    )
    error.status = 415
    return error
