"""Keys to ask with, and a clock to turn."""

from __future__ import annotations

from auth import Authenticator, Directory, KeyRecord, KeyRef, disabled, mint

Headers = list[tuple[bytes, bytes]]


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def minted() -> tuple[KeyRecord, Headers]:
    record, plaintext = mint(tenant="acme", service="web", name="", created_at_s=1_000.0)
    return record, [(b"authorization", b"Bearer " + plaintext.encode())]


async def added(directory: Directory) -> tuple[KeyRecord, Headers]:
    record, headers = minted()
    await directory.add(record)
    return record, headers


async def disable(directory: Directory, record: KeyRecord) -> None:
    await directory.change(KeyRef(record.key_id), lambda key: disabled(key, at_s=2_000.0))


async def whom(authenticator: Authenticator, headers: Headers) -> str:
    """The id of the key that these headers are right for."""
    return (await authenticator.authenticate(headers)).key_id
