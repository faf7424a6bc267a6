"""Whatever bytes a store gives back, reading them is never a fault: they are an entry of ours, or nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cache import AesGcmSeal, Unsealed, changes
from cache.entries.record import Header, decode, encode, header_of, read
from tests.cache.parts import asked, entry_for, part

QUESTION = asked()
ENTRY = entry_for(QUESTION, at_s=1e9)
ADDED = changes.Added(b"s" * 32, 2**62 + 1, np.eye(4, dtype=np.float32)[0], 1e9, b"12345678")
SEALS = st.sampled_from([Unsealed(), AesGcmSeal([b"k" * 32])])
EDITS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4)


def edited(record: bytes, edits: list[tuple[int, int]], length: int) -> bytes:
    changed = bytearray(record[:length])
    for at, byte in edits:
        if at < len(changed):
            changed[at] = byte
    return bytes(changed)


@given(SEALS, EDITS, st.integers(0, 400))
def test_an_edited_or_cut_entry_is_that_entry_or_none(
    seal: Unsealed | AesGcmSeal, edits: list[tuple[int, int]], length: int
) -> None:
    of = QUESTION.partition
    record = edited(encode(ENTRY, of, b"12345678", is_similar=True, seal=seal), edits, length)
    for found in (
        decode(record, entry_id=ENTRY.entry_id, partition=of, epoch=b"12345678", seal=seal),
        getattr(read(record, seal=seal), "entry", None),
    ):
        assert found is None or found == ENTRY or isinstance(seal, Unsealed)
    assert isinstance(header_of(record), Header | int | None)
    assert decode(record, entry_id=1, partition=part("other"), epoch=b"12345678", seal=seal) is None


@given(SEALS, EDITS, st.integers(0, 400))
def test_an_edited_or_cut_change_is_that_change_or_none(
    seal: Unsealed | AesGcmSeal, edits: list[tuple[int, int]], length: int
) -> None:
    found = changes.decode(edited(changes.encode(ADDED, seal), edits, length), seal)
    if isinstance(found, changes.Added) and isinstance(seal, AesGcmSeal):
        assert (found.space, found.entry_id, found.expires_at_s, found.epoch) == (
            ADDED.space,
            ADDED.entry_id,
            ADDED.expires_at_s,
            ADDED.epoch,
        )


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(data: bytes) -> None:
    seal = Unsealed()
    assert read(data, seal=seal) is None or data
    changes.decode(data, seal)
    header_of(b"\x02" + data)
