"""What keeps the indexes of several processes alike, and brings them back after a restart."""

from .follower import Follower
from .reembedding import Reembedded, Reembedding
from .sealed_blocks import Owner as SnapshotOwner
from .sealed_blocks import SnapshotRefused
from .snapshot_file import Snapshot
from .snapshots import Snapshots

__all__ = [
    "Follower",
    "Reembedded",
    "Reembedding",
    "Snapshot",
    "SnapshotOwner",
    "SnapshotRefused",
    "Snapshots",
]
