"""What keeps the indexes of several processes alike."""

from .follower import Follower

__all__ = ["Follower"]
