"""Reads what an owner keeps from its book, of which the quotas are: entries and bytes, in all and by namespace.

What has expired since the owner's last write is still among its bytes, and what the store let go for want of memory is
in the book until it would have expired.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from ..identity import Keys
from ..interfaces import Store
from ..model import Value
from .scan import answered

_PAGE = 500  # a millisecond
_DEADLINE_S = 2.0
_TAG, _SIZE = 8, 16  # where in a member they end and begin


class Account(Value, frozen=True):
    entries: int
    bytes: int


class Accounts(Value, frozen=True):
    """By namespace. `others`: of namespaces nobody asked for. Not `is_whole`: there was no time for all of it."""

    of: Mapping[str, Account]
    others: Account
    is_whole: bool


async def account_of(store: Store, keys: Keys, *, now_s: float) -> Account:
    deadline = time.monotonic() + _DEADLINE_S
    counting = store.execute("ZCOUNT", keys.book, now_s * 1000, "+inf", deadline=deadline)
    summing = store.execute("ZSCORE", keys.book, "b", deadline=deadline)
    return Account(int(await answered(counting)), int(float(await answered(summing) or 0)))


async def accounts_of(
    store: Store, owner: Keys, namespaces: Mapping[str, Keys], *, now_s: float, until: float
) -> Accounts:
    """Goes through the whole book, a page at a time. What is written meanwhile may count or not."""
    entries: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    cursor, is_whole = b"0", False
    while not is_whole and time.monotonic() < until:
        deadline = time.monotonic() + _DEADLINE_S
        reading = store.execute("ZSCAN", owner.book, cursor, "COUNT", _PAGE, deadline=deadline)
        cursor, page = await answered(reading)
        for member, expires in zip(page[::2], page[1::2], strict=True):
            if member != b"b" and float(expires) > now_s * 1000:
                tag = member[:_TAG]
                entries[tag] += 1
                sizes[tag] += int(member[_SIZE:])
        is_whole = int(cursor) == 0
    of = {
        name: Account(entries.pop(keys.tag, 0), sizes.pop(keys.tag, 0)) for name, keys in namespaces.items()
    }
    return Accounts(of, Account(entries.total(), sizes.total()), is_whole)
