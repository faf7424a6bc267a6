"""What keeps the indexes of several processes alike, and brings them back after a restart."""

from .follower import Follower
from .sealed_blocks import Owner, SnapshotRefused
from .snapshots import Snapshots

__all__ = ["Follower", "Owner", "SnapshotRefused", "Snapshots"]
