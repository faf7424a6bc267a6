"""Names: stable, keyed, apart for whatever differs, and free of what was asked."""

from __future__ import annotations

import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import identity
from tests.cache.parts import SECRET, part

NAMES = st.text(min_size=1, max_size=300).filter(lambda text: text.isprintable())


@given(st.tuples(NAMES, st.binary(max_size=40)), st.tuples(NAMES, st.binary(max_size=40)))
def test_partitions_are_equal_only_for_equal_namespace_and_material(
    one: tuple[str, bytes], other: tuple[str, bytes]
) -> None:
    assert (identity.partition(SECRET, *one) == identity.partition(SECRET, *other)) is (one == other)


def test_a_namespace_cannot_pass_for_the_beginning_of_the_material() -> None:
    assert part("ab", b"c").digest != part("a", b"bc").digest


@given(NAMES)
def test_ids_are_63_bits_and_the_same_in_every_process(text: str) -> None:
    named = identity.entry_id(SECRET, part(), text)
    assert 0 <= named < 2**63
    assert named == identity.entry_id(SECRET, part(), text)


@given(st.binary(max_size=100), st.binary(max_size=300))
def test_a_digest_is_the_hmac_of_its_material(secret: bytes, material: bytes) -> None:
    """Its own hashes are begun once for a secret; twice, so that the second uses what the first left."""
    expected = hmac.digest(secret, material, "sha256")
    assert [identity.digest(secret, material) for _ in range(2)] == [expected, expected]


def test_an_id_is_pinned_so_that_an_upgrade_keeps_the_entries() -> None:
    assert (
        identity.entry_id(b"secret", identity.partition(b"secret", "ns", b"m"), "text") == 4060286219198231760
    )


def test_all_namespaces_of_an_owner_lie_in_one_shard() -> None:
    shards = {identity.Keys(SECRET, f"acme/{label}/m").shard for label in ("", "default", "other", "x/y")}
    assert shards == {identity.shard_of(SECRET, "acme")}
    assert len({identity.shard_of(SECRET, f"tenant-{number}") for number in range(100)}) > 8


def test_another_secret_gives_other_names() -> None:
    of = part()
    assert identity.entry_id(SECRET, of, "text") != identity.entry_id(b"another", of, "text")
    assert identity.space(SECRET, of, "f") != identity.space(b"another", of, "f")


def test_half_a_surrogate_pair_has_a_name_too() -> None:
    assert identity.entry_id(SECRET, part(), "\ud83d") != identity.entry_id(SECRET, part(), "\ud83e")


def test_a_space_is_apart_for_each_partition_and_embedder_and_tells_both() -> None:
    space = identity.space(SECRET, part(), "f1")
    assert len({space, identity.space(SECRET, part(), "f2"), identity.space(SECRET, part("b"), "f1")}) == 3
    assert len(space) == 32
    assert identity.is_of_namespace(space, identity.namespace_tag(SECRET, "team-a"))
    assert not identity.is_of_namespace(space, identity.namespace_tag(SECRET, "team-b"))
    assert identity.is_of_fingerprint(space, identity.fingerprint_tag(SECRET, "f1"))
    assert not identity.is_of_fingerprint(space, identity.fingerprint_tag(SECRET, "f2"))


@pytest.mark.parametrize(
    "namespace", ["org/m1:latest", "a|b", "x}", "{00}", "*", "'\"\\", "", "n" * 300, "名"]
)
def test_store_keys_hold_digests_only_and_share_a_slot(namespace: str) -> None:
    """No value can widen, escape or share another namespace's keys."""
    keys = identity.Keys(SECRET, namespace)
    names = [keys.epoch, keys.entry(7), keys.vector(7), keys.changes]
    assert all(re.fullmatch(r"eg:\{(\d\d)\}:[a-z]+(:[0-9a-f]{16})?", name) for name in names)
    assert len({name[3:7] for name in names}) == 1
    assert int(keys.changes[4:6]) < identity.SHARDS
