"""Which key a request presents."""

from __future__ import annotations

import pytest

from auth import AuthError, ConflictingKeys, InvalidKey, MissingKey
from auth.identity.headers import presented_key

AUTHORIZATION, X_API_KEY, API_KEY = b"authorization", b"x-api-key", b"api-key"


@pytest.mark.parametrize(
    "headers",
    [
        [(AUTHORIZATION, b"Bearer K")],
        [(AUTHORIZATION, b"bearer K")],
        [(AUTHORIZATION, b"BEARER K")],
        [(X_API_KEY, b"K")],
        [(X_API_KEY, b" K ")],
        [(API_KEY, b"K")],
        [(b"host", b"h"), (AUTHORIZATION, b"Bearer K"), (X_API_KEY, b"K"), (API_KEY, b"K")],
    ],
)
def test_key_is_found(headers: list[tuple[bytes, bytes]]) -> None:
    assert presented_key(headers) == b"K"


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([], MissingKey),
        ([(b"host", b"h")], MissingKey),
        ([(X_API_KEY, b"")], MissingKey),
        ([(X_API_KEY, b"  ")], MissingKey),
        ([(AUTHORIZATION, b"Bearer ")], MissingKey),
        ([(AUTHORIZATION, b"Bearer")], MissingKey),
        ([(AUTHORIZATION, b"")], InvalidKey),
        ([(AUTHORIZATION, b"Basic dTpw")], InvalidKey),
        ([(AUTHORIZATION, b"Bearer sk-\xf1and\xfa")], InvalidKey),
        ([(X_API_KEY, "“K”".encode())], InvalidKey),
        ([(X_API_KEY, b"\x80")], InvalidKey),
        ([(X_API_KEY, b"k" * 16_384)], InvalidKey),
        ([(X_API_KEY, b"k" * 257)], InvalidKey),
        ([(AUTHORIZATION, b"Bearer K"), (AUTHORIZATION, b"Bearer K")], InvalidKey),
        ([(X_API_KEY, b"K"), (X_API_KEY, b"L")], InvalidKey),
        ([(AUTHORIZATION, b"Bearer K"), (X_API_KEY, b"L")], ConflictingKeys),
        ([(X_API_KEY, b"K"), (API_KEY, b"L")], ConflictingKeys),
        ([(AUTHORIZATION, b"Bearer K"), (X_API_KEY, b"")], ConflictingKeys),
    ],
)
def test_anything_else_is_a_clean_error(headers: list[tuple[bytes, bytes]], error: type[AuthError]) -> None:
    with pytest.raises(error) as caught:
        presented_key(headers)
    assert type(caught.value) is error


def test_error_does_not_repeat_what_was_sent() -> None:
    with pytest.raises(InvalidKey) as caught:
        presented_key([(AUTHORIZATION, b"Token hunter2")])
    assert "hunter2" not in str(caught.value)
