"""Owns how judges were measured: one durable hash, read at a start and when a change is told."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from cache import JudgeRates

_KEY = "eg:{k}:judges"
_FORMAT = 1
_PATIENCE_S = 2.0


class Measurement(msgspec.Struct, frozen=True):
    """The rates of a judge, and when they were installed (wall clock)."""

    rates: JudgeRates
    at_s: float
    format: int = _FORMAT


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...


_decoder = msgspec.json.Decoder(Measurement)


async def read_judges(store: Store) -> dict[str, Measurement]:
    """By name. Raises OSError. What this version does not understand is passed over: that judge is uncorrected."""
    fields = await store.execute("HGETALL", _KEY, deadline=time.monotonic() + _PATIENCE_S)
    found = {}
    for name, data in zip(fields[::2], fields[1::2], strict=True):
        try:
            measurement = _decoder.decode(data)
        except msgspec.MsgspecError:
            continue
        if measurement.format == _FORMAT:
            found[name.decode()] = measurement
    return found


async def write_judge(store: Store, judge: str, rates: JudgeRates | None) -> None:
    """None: it is not measured any more. Raises OSError if the store does not take it."""
    deadline = time.monotonic() + _PATIENCE_S
    if rates is None:
        await store.execute("HDEL", _KEY, judge, deadline=deadline)
    else:
        measurement = Measurement(rates, time.time())
        await store.execute("HSET", _KEY, judge, msgspec.json.encode(measurement), deadline=deadline)


class Judges:
    """What is known of judges in this worker. `on_change` is called when it is something else."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._rates: dict[str, JudgeRates] = {}

    def __repr__(self) -> str:
        return f"Judges({sorted(self._rates)} measured)"

    def of(self, name: str) -> JudgeRates | None:
        return self._rates.get(name)

    def take(self, name: str, rates: JudgeRates | None) -> None:
        if rates is None:
            self._rates.pop(name, None)
        else:
            self._rates[name] = rates
        self.on_change()

    def take_all(self, measured: Mapping[str, Measurement]) -> None:
        self._rates = {name: measurement.rates for name, measurement in measured.items()}
