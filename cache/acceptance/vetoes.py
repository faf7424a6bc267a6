"""Decides, without looking at vectors, that two questions cannot be the same. Pure functions over readings.

An embedding hardly moves when a number, a "not" or the order of two names changes; the answer does. A veto
costs a hit when it is wrong, an absent one costs a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable

from .contrasts import stem
from .denials import NEGATIVE
from .names import are_variants, is_abbreviation
from .reading import Reading
from .writing import is_typed_otherwise

_DENYING = ("un", "in", "im", "il", "ir", "dis", "non", "mis", "de")
_SHORTEST_OPPOSITE = 4
# Overpay and underpay: before the same word they are opposites.
_COUNTERPARTS = (
    *(("over", "under"), ("pre", "post"), ("hyper", "hypo"), ("macro", "micro"), ("inter", "intra")),
    *(("endo", "exo"), ("homo", "hetero")),
)
_OF_ALL = frozenset(("all", "every", "each"))  # every square is a rectangle
_PRONOUNS = frozenset(("i", "you", "he", "she", "they", "we"))

Veto = Callable[[Reading, Reading], bool]


def first_veto(new: Reading, stored: Reading) -> str | None:
    """The name of the first veto that applies ("number", "negation", …), or None."""
    return next((name for name, vetoes in VETOES.items() if vetoes(new, stored)), None)


def all_vetoes(new: Reading, stored: Reading) -> dict[str, bool]:
    """Of each whether it applies, for explaining."""
    return {name: vetoes(new, stored) for name, vetoes in VETOES.items()}


def other_script(new: Reading, stored: Reading) -> bool:
    return new.script != stored.script


def other_numbers(new: Reading, stored: Reading) -> bool:
    """The question "Convert 40 pounds" is not "Convert 40 kilos", nor "Convert 41 pounds"."""
    return new.quantities != stored.quantities


def other_date(new: Reading, stored: Reading) -> bool:
    """Last week is not next week, and 1 May not 2 May. Where both report trouble, it matters little that one says when
    it began."""
    if new.dates == stored.dates and new.times | new.told == stored.times | stored.told:
        return False
    if new.dates != stored.dates or new.times != stored.times:
        return True
    is_detail = new.polarity.is_report and stored.polarity.is_report
    return bool(new.told and stored.told) or not is_detail


def other_polarity(new: Reading, stored: Reading) -> bool:
    """One denies what the other affirms."""
    if new.script == "chinese":
        return new.polarity.count != stored.polarity.count
    return new.polarity.contradicts(stored.polarity)


def other_language(new: Reading, stored: Reading) -> bool:
    """Both name languages, and not the same ones in the same order."""
    return bool(new.languages and stored.languages) and new.languages != stored.languages


def other_side(new: Reading, stored: Reading) -> bool:
    """Each uses another word of a group whose words exclude one another (enable, disable; before, after), or one a
    word that is the other's with a denying syllable before it (legal, illegal), or one of two opposite ones (overpay,
    underpay)."""
    return (
        any(
            new.contrasts[group] != stored.contrasts[group]
            for group in new.contrasts.keys() & stored.contrasts.keys()
        )
        or _is_opposed(new, stored)
        or _is_opposed(stored, new)
    )


def _is_opposed(one: Reading, other: Reading) -> bool:
    plain = other.words - one.words
    return (
        any(
            word.startswith(denying)
            and (rest := word[len(denying) :]) in plain
            and len(rest) >= _SHORTEST_OPPOSITE
            and word not in NEGATIVE  # is counted as a "not"
            and stem(rest) not in other.polarity.denied  # "not legal" is illegal
            for word in one.words - other.words
            for denying in _DENYING
        )
        or any(
            word.startswith(syllable) and counterpart + word[len(syllable) :] in plain
            for word in one.words - other.words
            for syllable, counterpart in _COUNTERPARTS
        )
    )


def other_name(new: Reading, stored: Reading) -> bool:
    """Each names something that does not occur in the other, or what is a name in one is a mere word in the other
    (Polish, polish). One more name on one side alone is often only detail."""
    if any(new.cases[word] != stored.cases[word] for word in new.cases.keys() & stored.cases.keys()):
        return True
    here = _unmentioned(new.names, stored)
    there = _unmentioned(stored.names, new)
    if not (here and there):
        return False
    matched = {(a, b) for a in here for b in there if are_variants(a, b)}
    here -= {a for a, _ in matched}
    there -= {b for _, b in matched}
    short = [name for name in here if is_abbreviation(name, there)] + [
        name for name in there if is_abbreviation(name, here)
    ]
    return bool(here and there) and not short


def _unmentioned(names: frozenset[str], other: Reading) -> frozenset[str]:
    # A single letter is also a word ("a"), so it only counts as mentioned where it is a name.
    return frozenset(
        name for name in names if name not in other.names and (len(name) == 1 or name not in other.spoken)
    )


def other_order(new: Reading, stored: Reading) -> bool:
    """The same words in exchanged roles: who pays whom, from what to what.

    A phrase that only moved ("in Gmail, how do I …") leaves the rest in its order, and is no exchange.
    """
    if new.flow.before & stored.flow.behind and new.flow.behind & stored.flow.before:
        return True
    one, other = list(new.roles), list(stored.roles)
    if one == other or sorted(one) != sorted(other):
        return False
    if {new.asks, stored.asks} == {"object", "subject"} or one[0] in _OF_ALL or _PRONOUNS.issuperset(one):
        return True
    if any(one[cut:] + one[:cut] == other for cut in range(1, len(one))) and new.script != "chinese":
        return False
    while one[0] == other[0]:
        del one[0], other[0]
    while one[-1] == other[-1]:
        del one[-1], other[-1]
    if new.script == "chinese" and _around_and(one, other):
        return False
    return not any(one[cut:] + one[:cut] == other for cut in range(1, len(one)))


def _around_and(one: list[str], other: list[str]) -> bool:
    """In 苹果与香蕉 the order says nothing."""
    joined = [
        next((sign for sign in ("还是", "与", "或") if sign in "".join(signs)), "") for signs in (one, other)
    ]
    parts = [
        "".join(signs).split(sign) if sign else [] for signs, sign in zip((one, other), joined, strict=True)
    ]
    return bool(parts[0]) and parts[0] == parts[1][::-1]


def other_form(new: Reading, stored: Reading) -> bool:
    """The answer shall have another form: a table, one sentence, in French, for children."""
    return new.forms != stored.forms


def other_payload(new: Reading, stored: Reading) -> bool:
    """One brings long material to work on that the other does not have."""
    return not (new.payload <= stored.words and stored.payload <= new.words)


def other_symbols(new: Reading, stored: Reading) -> bool:
    """C++ and C#, < and >, two emoji: the embedder drops them or knows them only as unknown. So it does with
    capitals and signs, which count where a text speaks of them."""
    return new.symbols != stored.symbols or is_typed_otherwise(new.typed, stored.typed)


VETOES: dict[str, Veto] = {
    "script": other_script,
    "number": other_numbers,
    "date": other_date,
    "negation": other_polarity,
    "language": other_language,
    "contrast": other_side,
    "name": other_name,
    "order": other_order,
    "form": other_form,
    "payload": other_payload,
    "symbol": other_symbols,
}
