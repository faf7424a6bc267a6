"""Reads a text once for what the vetoes compare: quantities, negations, contrasts, word order, symbols."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .contrasts import members, stem
from .quantities import Quantities, quantities

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
# Words that do not say who does what to whom, or from what to what. Those that do stay, `to` and `than` among
# them; of the pronouns only those that act or are acted on.
_LITTLE_WORDS = """
    a an the is are was were be been being am do does did done doing have has had having can could will would
    shall should may might must my mine your yours our ours his hers it its their what which who whom whose when
    where why how that this these those there here of and or if but then so as at for with about in on onto
    please tell explain give show get some any just also very really much many s t re ve ll d m
"""
_LITTLE = frozenset(_LITTLE_WORDS.split())
_SAME = {"me": "i", "him": "he", "her": "she", "them": "they", "us": "we"}
_NEGATION = re.compile(
    r"\b(?:not|never|without|none|nobody|nothing|neither|nor|cannot|cant|wont|dont|doesnt|isnt|no(?!\.? ?\d))\b"
    r"|n't\b"
)
# Forms that ask for the same with and without the negation.
_HOLLOW = re.compile(
    r"^(?:isn't|aren't|wasn't|weren't|doesn't|didn't|won't|wouldn't|couldn't|shouldn't|can't|haven't|hasn't)\b"
    r"(?=.*\?\W*$)"
    r"|^don't(?= (?:i|you|we|they|people|the|my|your)\b.*\?\W*$)"
    r"|,\s*(?:is|are|was|were|do|does|did|wo|would|could|should|ca|have|has)n't (?:it|he|she|they|we|you|i)\b"
    r"|\bor not\b|\bwhy not\b|\bnot only\b"
)
# A dash or a slash is an operator between two numbers, and nothing much anywhere else.
_OPERATOR = re.compile(r"(?<=\d) ?([-−/]) ?(?=\d)")
_PERIOD = re.compile(r"\b(this|last|next|previous|past|coming) (?=day|week|weekend|month|quarter|year)")
# The last few are units, and compared with their numbers.
_PLAIN_SYMBOLS = frozenset(" \t\n\r.,;:!?'\"()-/_’‘“”–—…¿¡%$€£¥₹°")


@dataclass(frozen=True, slots=True)
class Reading:
    roles: tuple[str, ...]  # stems of the words that say who does what to whom, in order
    quantities: Quantities
    negations: int
    contrasts: dict[int, tuple[str, ...]]
    periods: tuple[str, ...]  # this, last, next (week, month, …)
    symbols: tuple[str, ...]  # what the embedder may not see: signs, emoji, letters of other scripts; sorted


def read(text: str) -> Reading:
    lowered = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    words = [word.split("'")[0] for word in _WORD.findall(lowered)]
    stems = [_SAME.get(word, stem(word)) for word in words]
    return Reading(
        roles=tuple(stemmed for word, stemmed in zip(words, stems, strict=True) if word not in _LITTLE),
        quantities=quantities(lowered),
        negations=len(_NEGATION.findall(_HOLLOW.sub(" ", lowered.strip()))),
        contrasts=members(stems),
        periods=tuple(_PERIOD.findall(lowered)),
        symbols=_symbols(lowered),
    )


def _symbols(lowered: str) -> tuple[str, ...]:
    signs = [sign for sign in lowered.replace(" & ", " and ") if _is_symbol(sign)]
    return tuple(sorted(signs + _OPERATOR.findall(lowered)))


def _is_symbol(sign: str) -> bool:
    if sign in _PLAIN_SYMBOLS:
        return False
    return not sign.isalnum() or ord(sign) > 0x24F  # beyond the Latin letters
