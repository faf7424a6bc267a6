"""Whether a member can serve a request at all, whatever its load."""

from __future__ import annotations

from ..model import Capabilities, Needs


def meets(able: Capabilities, needs: Needs) -> bool:
    """An unknown context length rules nothing out: the server itself refuses what is too long."""
    return (
        (able.max_context is None or needs.context_tokens <= able.max_context)
        and needs.modalities <= able.modalities
        and (needs.lora is None or needs.lora in able.loras)
        and needs.features <= able.features
    )
