"""Vectors to neighbours: the indexes of one process."""

from .clusters import Cluster
from .faiss_index import FaissIndex
from .frozen import FrozenSpace
from .neighbours import Neighbours
from .plan import Plan
from .space import Space
from .spaces import IndexState, Spaces

__all__ = ["Cluster", "FaissIndex", "FrozenSpace", "IndexState", "Neighbours", "Plan", "Space", "Spaces"]
