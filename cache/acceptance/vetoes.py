"""Decides, without looking at vectors, that two questions cannot be the same. Pure functions over readings.

An embedding hardly moves when a number, a "not" or the order of two names changes; the answer does. A veto
costs a hit when it is wrong, an absent one costs a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable

from .reading import Reading

Veto = Callable[[Reading, Reading], bool]


def first_veto(new: Reading, stored: Reading) -> str | None:
    """The name of the first veto that applies ("number", "negation", …), or None."""
    return next((name for name, vetoes in VETOES.items() if vetoes(new, stored)), None)


def other_numbers(new: Reading, stored: Reading) -> bool:
    """The question "Convert 40 pounds" is not "Convert 40 kilos", nor "Convert 41 pounds"."""
    return new.quantities != stored.quantities


def other_polarity(new: Reading, stored: Reading) -> bool:
    """One of them says "not" (or "never", "without") more often."""
    return new.negations != stored.negations


def other_side(new: Reading, stored: Reading) -> bool:
    """Each uses another word of a group whose words exclude one another: enable, disable; before, after."""
    return any(
        new.contrasts[group] != stored.contrasts[group]
        for group in new.contrasts.keys() & stored.contrasts.keys()
    )


def other_period(new: Reading, stored: Reading) -> bool:
    """Last week is not next week."""
    return new.periods != stored.periods


def other_order(new: Reading, stored: Reading) -> bool:
    """The same words in exchanged roles: who pays whom, from what to what.

    A phrase that only moved ("in Gmail, how do I …") leaves the rest in its order, and is no exchange.
    """
    one, other = list(new.roles), list(stored.roles)
    if one == other or sorted(one) != sorted(other):
        return False
    while one[0] == other[0]:
        del one[0], other[0]
    while one[-1] == other[-1]:
        del one[-1], other[-1]
    return not any(one[cut:] + one[:cut] == other for cut in range(1, len(one)))


def other_symbols(new: Reading, stored: Reading) -> bool:
    """C++ and C#, < and >, two emoji: the embedder drops them or knows them only as unknown."""
    return new.symbols != stored.symbols


VETOES: dict[str, Veto] = {
    "number": other_numbers,
    "negation": other_polarity,
    "contrast": other_side,
    "period": other_period,
    "order": other_order,
    "symbol": other_symbols,
}
