"""Opens the embedder that the settings name, wherever one is needed."""

from __future__ import annotations

from cache import Embedder, ModelError, open_embedder

from ..settings.cache import EmbedderSettings
from ..settings.reading import Settings, read_credential


def opened_embedder(settings: Settings, wanted: EmbedderSettings) -> Embedder:
    """Blocking. Raises `ModelError`. `wanted.kind` is not `none`."""
    assert wanted.kind != "none"
    if wanted.kind == "http":
        return open_embedder(
            "http",
            model=wanted.model or "",
            url=wanted.url or "",
            revision=wanted.revision,
            dimension=wanted.dimension or 0,
            window=wanted.window,
            key=_key(wanted.api_key_env),
            timeout_s=wanted.timeout_ms / 1000,
        )
    model = wanted.model or str(settings.model_folder)
    return open_embedder(wanted.kind, model=model, precision=wanted.precision)


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    key = read_credential(name)
    if key is None:
        raise ModelError(f"cache.embedder.api_key_env: the environment variable {name} is not set")
    return key
