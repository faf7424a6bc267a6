"""Vectors to neighbours: the indexes of one process."""

from .faiss_index import FaissIndex
from .spaces import Space, Spaces

__all__ = ["FaissIndex", "Space", "Spaces"]
