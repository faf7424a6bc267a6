"""Decides which entries somebody means who does not ask a question: by whose they are, what they have to do with, their
age. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..model import Value, owner_of
from .record import Header


class Selector(Value, frozen=True):
    """All that is named must hold; where nothing is, every entry is meant.

    `under`: namespaces whose labels begin so. `tags`: as given with the answers ("user", "key", "version", "request",
    …). `older_than_s`: stored longer ago.
    `alike`: questions whose cosine with this text is at least `min_similarity`.
    """

    _unsaid = frozenset({"tags", "alike"})

    owner: str | None = None
    namespace: str | None = None
    under: str | None = None
    entry_ids: frozenset[int] = frozenset()
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    older_than_s: float | None = None
    alike: str | None = None
    min_similarity: float = 0.95

    @property
    def whose(self) -> str | None:
        """The owner whose entries alone can be meant; None: anybody's."""
        label = self.namespace or self.under
        return self.owner if label is None else owner_of(label)


def means(selector: Selector, header: Header, *, tags: Mapping[str, bytes], now_s: float) -> bool:
    """`tags` are the selector's, as digests. What it is alike to is another's to find out."""
    return (
        selector.owner in (None, owner_of(header.namespace))
        and selector.namespace in (None, header.namespace)
        and header.namespace.startswith(selector.under or "")
        and (not selector.entry_ids or header.entry_id in selector.entry_ids)
        and all(header.tags.get(name) == digest for name, digest in tags.items())
        and (selector.older_than_s is None or now_s - header.created_at_s > selector.older_than_s)
    )
