"""Makes the price list of the configuration."""

from __future__ import annotations

from auth import Prices

from ..settings.reading import Settings


def prices_of(settings: Settings) -> Prices:
    return Prices({model: (each.input, each.output) for model, each in settings.prices.items()})
