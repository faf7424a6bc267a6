"""A snapshot is believed as a whole, or not at all: whatever was done to the file, and whoever did it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cache import AesGcmSeal, FrozenSpace
from cache.entries.sealing import Unsealed
from cache.identity import SHARDS
from cache.replica.place import Place
from cache.replica.sealed_blocks import Owner, SnapshotRefused
from cache.replica.snapshot_file import Contents, Snapshot, read, writing

SECRET = b"a deployment's secret, for tests"
OWNER = Owner(SECRET, Unsealed(), "model/1", 32)
CONTENTS = Contents([Place(b"%d-0" % shard, shard) for shard in range(SHARDS)], {b"12345678": 3}, 1000.0)


def space(name: bytes, rows: int, *, clusters: int = 0, kind: type[np.floating] = np.float32) -> FrozenSpace:
    dice = np.random.default_rng(rows)
    return FrozenSpace(
        name.ljust(32, b"."),
        dice.integers(0, 1 << 62, rows),
        dice.uniform(1e9, 2e9, rows),
        dice.standard_normal((rows, 32)).astype(kind),
        dice.standard_normal((clusters, 32)).astype(np.float32) if clusters else None,
        dice.integers(0, clusters, rows, dtype=np.int32) if clusters else None,
        probes=3 if clusters else 1,
    )


SPACES = [space(b"few", 3), space(b"half", 100, kind=np.float16), space(b"many", 25_000, clusters=40)]


def written(path: Path, *spaces: FrozenSpace, owner: Owner = OWNER, contents: Contents = CONTENTS) -> Path:
    with writing(path, owner, contents) as writer:
        for each in spaces:
            writer.add(each)
    return path


def refusal(path: Path, owner: Owner = OWNER) -> str:
    with pytest.raises(SnapshotRefused) as refused:
        read(path, owner)
    return refused.value.why


def assert_equal(snapshot: Snapshot, spaces: list[FrozenSpace]) -> None:
    assert snapshot.contents == CONTENTS
    assert len(snapshot.spaces) == len(spaces)
    for found, expected in zip(snapshot.spaces, spaces, strict=True):
        assert (found.name, found.probes) == (expected.name, expected.probes)
        for name in ("ids", "expires_at_s", "vectors", "centroids", "lists"):
            one, other = getattr(found, name), getattr(expected, name)
            assert (one is None) == (other is None)
            if one is not None:
                assert one.dtype == other.dtype
                assert np.array_equal(one, other)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert_equal(read(written(tmp_path / "s", *SPACES), OWNER), SPACES)


def test_a_snapshot_may_be_empty(tmp_path: Path) -> None:
    assert_equal(read(written(tmp_path / "s"), OWNER), [])


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    assert written(tmp_path / "s").stat().st_mode & 0o777 == 0o600


def test_sealed_it_tells_nothing_of_the_vectors(tmp_path: Path) -> None:
    sealed = Owner(SECRET, AesGcmSeal([b"k" * 32]), "model/1", 32)
    path = written(tmp_path / "s", *SPACES, owner=sealed)
    assert_equal(read(path, sealed), SPACES)
    assert SPACES[0].vectors.tobytes() not in path.read_bytes()
    assert SPACES[0].name not in path.read_bytes()
    assert SPACES[0].vectors.tobytes() in written(tmp_path / "plain", *SPACES).read_bytes()
    assert refusal(path) == "damaged"  # without the key
    assert refusal(path, Owner(SECRET, AesGcmSeal([b"j" * 32]), "model/1", 32)) == "damaged"
    assert_equal(read(path, Owner(SECRET, AesGcmSeal([b"j" * 32, b"k" * 32]), "model/1", 32)), SPACES)


def test_where_all_has_to_be_sealed_an_open_one_is_refused(tmp_path: Path) -> None:
    assert (
        refusal(written(tmp_path / "s", *SPACES), Owner(SECRET, AesGcmSeal([b"k" * 32]), "model/1", 32))
        == "damaged"
    )


def test_one_of_another_deployment_or_model_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "s", *SPACES)
    assert refusal(path, Owner(b"another secret", Unsealed(), "model/1", 32)) == "foreign"
    with pytest.raises(SnapshotRefused, match=r"model/1 with vectors of 32 .* model/2 with 768") as refused:
        read(path, Owner(SECRET, Unsealed(), "model/2", 768))
    assert refused.value.why == "other-embedder"
    assert refusal(tmp_path / "none") == "absent"
    assert refusal(tmp_path) == "unreadable"


class Bomb:
    """Makes a file where it is carried out."""

    def __init__(self, crater: Path) -> None:
        self.crater = crater

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.crater}",)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"echogate index\n\0", b"echogate index\n\0" + b"\1\0\0\0" + b"\xff" * 4, os.urandom(5000)],
    ids=["empty", "a zero", "the magic alone", "a long head", "noise"],
)
def test_garbage_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(content)
    assert refusal(path) in ("damaged", "other-format")


def test_a_pickle_is_not_carried_out(tmp_path: Path) -> None:
    """Neither as the whole file nor where the head or an array would be."""
    crater = tmp_path / "crater"
    bomb = pickle.dumps(Bomb(crater))
    whole = written(tmp_path / "good", *SPACES).read_bytes()
    numpy_file = tmp_path / "bomb.npy"
    np.save(numpy_file, np.array([Bomb(crater)], dtype=object), allow_pickle=True)
    for content in (bomb, whole[:24] + bomb, whole[:200] + bomb + whole[200:], numpy_file.read_bytes()):
        path = tmp_path / "s"
        path.write_bytes(content)
        assert refusal(path) == "damaged"
    assert not crater.exists()
    pickle.loads(bomb)  # it would have
    assert crater.exists()


def test_nested_without_end_it_is_refused(tmp_path: Path) -> None:
    path, head = tmp_path / "s", b"\x91" * 4000
    path.write_bytes(
        b"echogate index\n\0" + (1).to_bytes(4, "little") + len(head).to_bytes(4, "little") + head
    )
    assert refusal(path) == "damaged"


def test_one_of_another_format_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "s", *SPACES)
    content = path.read_bytes()
    path.write_bytes(content[:16] + (0).to_bytes(4, "little") + content[20:])
    assert refusal(path) == "other-format"


def test_cut_off_anywhere_it_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "s", *SPACES)
    content = path.read_bytes()
    lengths = [*range(0, 400, 7), *range(400, len(content), 150_009), len(content) - 1]
    for length in lengths:
        path.write_bytes(content[:length])
        assert refusal(path) in ("damaged", "other-format")


def test_lengthened_it_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "s", *SPACES)
    content = path.read_bytes()
    for more in (b"\0", content[-100:], content):
        path.write_bytes(content + more)
        assert refusal(path) == "damaged"


def test_changed_in_any_byte_it_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "s", *SPACES)
    content = path.read_bytes()
    for at in [*range(0, 300, 3), *range(300, len(content), 150_011), len(content) - 1]:
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert refusal(path) in ("damaged", "foreign", "other-embedder", "other-format"), at


def test_blocks_cannot_be_moved_left_out_or_taken_from_another_snapshot(tmp_path: Path) -> None:
    one, other = (blocks(written(tmp_path / name, *SPACES).read_bytes()) for name in ("one", "other"))
    head, *bodies = one
    assert len(bodies) > 3
    path = tmp_path / "s"
    forgeries = [
        [head, bodies[1], bodies[0], *bodies[2:]],
        [head, bodies[0], bodies[2], bodies[1], *bodies[3:]],  # both within one array
        [head, *bodies[1:]],
        [head, *bodies[:-1]],
        [head, *bodies[:2], bodies[-1]],
        [head, *bodies, bodies[-1]],
        [head, other[1], *bodies[1:]],
        [other[0], *bodies],
    ]
    for forged in forgeries:
        path.write_bytes(b"".join(forged))
        assert refusal(path) == "damaged"
    path.write_bytes(b"".join(one))
    assert_equal(read(path, OWNER), SPACES)


def blocks(content: bytes) -> list[bytes]:
    """The head, and each block with what stands before it."""
    at = 24 + int.from_bytes(content[20:24], "little")
    found = [content[:at]]
    while at < len(content):
        end = at + 4 + 9 + 32 + int.from_bytes(content[at : at + 4], "little")
        found.append(content[at:end])
        at = end
    return found


def test_written_in_part_it_leaves_the_one_before(tmp_path: Path) -> None:
    path = written(tmp_path / "s", *SPACES)
    with pytest.raises(AttributeError):
        written(path, SPACES[0], None)  # type: ignore[arg-type]
    assert_equal(read(path, OWNER), SPACES)
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_a_draft_that_a_killed_process_left_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "s.draft").write_bytes(b"half of one")
    assert_equal(read(written(tmp_path / "s", *SPACES), OWNER), SPACES)
