"""Names everything the cache keeps: entries, spaces and store keys, all by keyed digests.

HMAC under the deployment's secret, never a plain hash: whoever reads the store or sees an id cannot confirm a
guessed prompt with it. The first bytes of each message say what is being named, so that no two kinds of names
can be made to collide by choosing a text.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from .acceptance import canonical, is_chinese, is_same, normalised
from .model import Entry, Partition, owner_of

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

SHARDS = 16
_BLOCK_BYTES = 64  # of SHA-256
_ID_BITS = 63  # ids are signed 64-bit in Faiss; the sign stays free for its "nothing found"
_NAMESPACE_TAG = 8
_FINGERPRINT_TAG = 4
_SHORTEST_CANONICAL, _LONGEST_CANONICAL = 3, 1_000  # characters; of a mere greeting nothing is left


def digest(secret: bytes, material: bytes) -> bytes:
    """HMAC-SHA256. From its two hashes as begun once for a secret: each look-up takes several, and `hmac.digest` begins
    anew each time."""
    inner, outer = _begun(secret)
    within, around = inner.copy(), outer.copy()
    within.update(material)
    around.update(within.digest())
    return around.digest()


@lru_cache(maxsize=16)
def _begun(secret: bytes) -> tuple[Hash, Hash]:
    """RFC 2104: the key, as long as a block, under either of two pads."""
    key = (secret if len(secret) <= _BLOCK_BYTES else sha256(secret).digest()).ljust(_BLOCK_BYTES, b"\0")
    return sha256(bytes(byte ^ 0x36 for byte in key)), sha256(bytes(byte ^ 0x5C for byte in key))


def partition(secret: bytes, namespace: str, material: bytes) -> Partition:
    """`material` is everything that must match exactly; the namespace becomes part of it."""
    return partition_of(secret, namespace, sha256(material).digest())


def partition_of(secret: bytes, namespace: str, source: bytes) -> Partition:
    """From the plain digest of the material."""
    label = namespace.encode()
    return Partition(namespace, digest(secret, b"partition\0%d\0%b%b" % (len(label), label, source)), source)


def entry_id(secret: bytes, of: Partition, text: str) -> int:
    """Stable for a text in a partition, however it is typed, in [0, 2**63)."""
    return _number(secret, b"entry\0", of, normalised(text) or text)


def is_for(entry: Entry, text: str) -> bool:
    """Whether an entry that lies under a text's number is for it: two texts can have one number."""
    return entry.question == text or (not entry.answer.is_literal and is_same(entry.question, text))


def canonical_id(secret: bytes, of: Partition, text: str) -> int | None:
    """The same for all texts of one canonical form, where that is to be trusted: in Chinese, not almost empty, and no
    longer than a question."""
    form = _canonical_form(text)
    return None if form is None else _number(secret, b"canonical\0", of, form)


def is_same_in_form(one: str, other: str) -> bool:
    """Whether two texts of a partition have one canonical number."""
    form = _canonical_form(one)
    return form is not None and form == _canonical_form(other)


def _canonical_form(text: str) -> str | None:
    if text.isascii() or len(text) > _LONGEST_CANONICAL or not is_chinese(text):
        return None
    form = canonical(text)
    return form if len(form) >= _SHORTEST_CANONICAL else None


def _number(secret: bytes, kind: bytes, of: Partition, text: str) -> int:
    # A lone surrogate can arrive in JSON (`"\\ud83d"`): it names an entry of its own instead of failing.
    named = digest(secret, kind + of.digest + text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(named[:8], "big") >> (64 - _ID_BITS)


def answer_id(secret: bytes, text: str) -> int:
    """Stands for an answer's text, in [0, 2**63)."""
    named = digest(secret, b"answer\0" + text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(named[:8], "big") >> (64 - _ID_BITS)


def space(secret: bytes, of: Partition, fingerprint: str) -> bytes:
    """The vector index of a partition under one embedder: 32 bytes that begin with the tags of both, so that
    all spaces of a namespace can be dropped, and those of another embedder passed over, without a look-up."""
    name = digest(secret, b"space\0" + of.digest + fingerprint.encode())
    tags = namespace_tag(secret, of.namespace) + fingerprint_tag(secret, fingerprint)
    return tags + name[len(tags) :]


def namespace_tag(secret: bytes, namespace: str) -> bytes:
    return digest(secret, b"namespace\0" + namespace.encode())[:_NAMESPACE_TAG]


def fingerprint_tag(secret: bytes, fingerprint: str) -> bytes:
    return digest(secret, b"fingerprint\0" + fingerprint.encode())[:_FINGERPRINT_TAG]


def tag(secret: bytes, name: str, value: str) -> bytes:
    """Stands for what an entry has to do with: whoever knows it can find the entry, and nobody can read it there."""
    label = name.encode()
    return digest(secret, b"tag\0%d\0%b%b" % (len(label), label, value.encode("utf-8", "surrogatepass")))[:12]


def is_of_namespace(space: bytes, tag: bytes) -> bool:
    return space.startswith(tag)


def tag_of_space(space: bytes) -> bytes:
    """The tag of the namespace that the space belongs to."""
    return space[:_NAMESPACE_TAG]


def is_of_fingerprint(space: bytes, tag: bytes) -> bool:
    return space[_NAMESPACE_TAG:].startswith(tag)


def shard_of(secret: bytes, namespace: str) -> int:
    """All namespaces of one owner lie in one shard, so that one script can act over all that it keeps."""
    return digest(secret, b"owner\0" + owner_of(namespace).encode())[0] % SHARDS


class Keys:
    """The store's keys of one namespace. They share a hash tag, so one script can change them together."""

    __slots__ = (
        "_canonical",
        "_claims",
        "_entries",
        "_vectors",
        "blocked",
        "book",
        "changes",
        "epoch",
        "era",
        "prefix",
        "shard",
        "tag",
    )

    def __init__(self, secret: bytes, namespace: str) -> None:
        tag = namespace_tag(secret, namespace)
        self.shard = shard_of(secret, namespace)
        self._entries = key_of(self.shard, "e:")
        self._vectors = key_of(self.shard, "v:")
        self._canonical = key_of(self.shard, "c:")
        self._claims = key_of(self.shard, "l:")
        self.tag = tag
        self.prefix = key_of(self.shard, "")
        self.epoch = epoch_key(self.shard, tag)
        self.era = era_key(self.shard)
        self.book = key_of(
            self.shard, f"book:{digest(secret, b'book' + owner_of(namespace).encode())[:8].hex()}"
        )
        self.blocked = key_of(self.shard, f"blocked:{tag.hex()}")
        self.changes = changes_key(self.shard)

    def entry(self, entry_id: int) -> str:
        return f"{self._entries}{entry_id:016x}"

    def vector(self, entry_id: int) -> str:
        return f"{self._vectors}{entry_id:016x}"

    def canonical(self, canonical_id: int) -> str:
        """Where the number of the last entry of that canonical form stands."""
        return f"{self._canonical}{canonical_id:016x}"

    def claim(self, entry_id: int) -> str:
        """Where it stands who is about to fill the entry."""
        return f"{self._claims}{entry_id:016x}"


@lru_cache(maxsize=4096)
def keys_in(secret: bytes, namespace: str) -> Keys:
    """Made once, as it takes four digests."""
    return Keys(secret, namespace)


def key_of(shard: int, name: str) -> str:
    """All keys of one shard share a hash tag: they lie in one slot."""
    return f"eg:{{{shard:02d}}}:{name}"


def changes_key(shard: int) -> str:
    return key_of(shard, "changes")


def era_key(shard: int) -> str:
    return key_of(shard, "era")


def epoch_key(shard: int, tag: bytes) -> str:
    """Of the namespace with this tag."""
    return key_of(shard, f"epoch:{tag.hex()}")
