"""Text to vectors: the embedders, the queue in front of one, and the preparing of the default model."""

from .choice import open_embedder
from .embed_queue import Embedded, EmbedQueue, NoEmbedder
from .onnx_embedder import OnnxEmbedder
from .prepare import Prepared, prepare

__all__ = ["EmbedQueue", "Embedded", "NoEmbedder", "OnnxEmbedder", "Prepared", "open_embedder", "prepare"]
