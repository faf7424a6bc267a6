"""Keys: their form, their secrecy, and how one is checked."""

from __future__ import annotations

import hashlib
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth import RequestLimit, mint
from auth.identity.keys import is_right, read_key
from auth.model import KeyRecord


def minted() -> tuple[KeyRecord, bytes]:
    record, plaintext = mint(
        tenant="acme", service="web", name="a key", limit=RequestLimit(), created_at_s=1_000.0
    )
    return record, plaintext.encode()


def test_key_has_a_public_id_and_a_secret() -> None:
    record, plaintext = minted()

    assert re.fullmatch(rb"eg-[a-z0-9]{12}-[A-Za-z0-9_-]{43}", plaintext)
    assert plaintext.startswith(b"eg-" + record.key_id.encode() + b"-")


def test_record_holds_the_hash_and_not_the_secret() -> None:
    record, plaintext = minted()
    secret = plaintext[16:]

    assert record.secret_sha256 == hashlib.sha256(secret).digest()
    assert secret.decode() not in repr(record)
    assert repr(record.secret_sha256) not in repr(record)


def test_minted_key_is_right_for_its_record_alone() -> None:
    (one, plaintext), (other, _) = minted(), minted()
    presented = read_key(plaintext)

    assert presented is not None
    assert is_right(presented, one)
    assert not is_right(presented, other)
    assert not is_right(presented, None)


@given(st.binary(max_size=80))
def test_anything_else_is_not_a_key(presented: bytes) -> None:
    assert read_key(presented) is None


@pytest.mark.parametrize("change", [b"x", b"\n", b" "])
def test_key_with_something_added_is_not_a_key(change: bytes) -> None:
    _, plaintext = minted()

    assert read_key(plaintext + change) is None
    assert read_key(change + plaintext) is None


@pytest.mark.parametrize("name", ["", "a}b", "a b", ".a", "é", "a" * 65, "a\n"])
def test_name_that_could_break_a_store_key_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        mint(tenant=name, service="web", name="", limit=RequestLimit(), created_at_s=0)
    with pytest.raises(ValueError, match="service"):
        mint(tenant="acme", service=name, name="", limit=RequestLimit(), created_at_s=0)


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (math.nan, 1), (math.inf, 1), (1, 0)])
def test_limit_that_cannot_be_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        mint(tenant="acme", service="web", name="", limit=RequestLimit(rate, burst), created_at_s=0)
