"""Keys: their form, their secrecy, and how one is checked."""

from __future__ import annotations

import hashlib
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth import KeyRecord, OldSecret, mint, rotated
from auth.identity.keys import matching, new_secret, plaintext, read_key, sha256


def minted() -> tuple[KeyRecord, bytes]:
    record, key = mint(tenant="acme", service="web", name="a key", created_at_s=1_000.0)
    return record, key.encode()


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
    assert matching(presented, one) == "current"
    assert matching(presented, other) is None
    assert matching(presented, None) is None


def test_key_is_right_with_its_old_secret_too() -> None:
    before, old_key = minted()
    secret = new_secret()
    record = rotated(before, secret, at_s=100.0, grace_s=60.0)
    old, new = read_key(old_key), read_key(plaintext(record.key_id, secret).encode())

    assert old is not None
    assert new is not None
    assert matching(old, record) == "old"
    assert matching(new, record) == "current"
    assert record.old_secret == OldSecret(before.secret_sha256, 160.0)


def test_second_rotation_ends_the_first_secret() -> None:
    before, key = minted()
    record = rotated(rotated(before, "one", at_s=0, grace_s=60), "two", at_s=1, grace_s=60)
    presented = read_key(key)

    assert presented is not None
    assert matching(presented, record) is None
    assert record.old_secret == OldSecret(sha256("one"), 61)


def test_rotation_without_grace_ends_the_old_secret_at_once() -> None:
    before, _ = minted()

    assert rotated(before, "new", at_s=0, grace_s=0).old_secret is None


@pytest.mark.parametrize("kind", ["right", "wrong", "unknown", "rotated"])
def test_each_check_compares_the_same_number_of_digests(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a record exists, and how many secrets it has, shows neither in what is done nor how."""
    compared: list[tuple[int, int]] = []
    genuine = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return genuine(one, other)

    monkeypatch.setattr("auth.identity.keys.hmac.compare_digest", compare)
    record, key = minted()
    presented = read_key(minted()[1] if kind == "wrong" else key)
    assert presented is not None

    matching(
        presented,
        {"unknown": None, "rotated": rotated(record, "new", at_s=0, grace_s=60)}.get(kind, record),
    )

    assert compared == [(32, 32), (32, 32)]


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
        mint(tenant=name, service="web", name="", created_at_s=0)
    with pytest.raises(ValueError, match="service"):
        mint(tenant="acme", service=name, name="", created_at_s=0)
