"""Reads a text once for what the vetoes compare: quantities, negations, contrasts, word order, symbols."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .contrasts import members, stem
from .quantities import Quantities, quantities

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
# Words that say nothing about who does what to whom.
_LITTLE_WORDS = """
    a an the is are was were be been being am do does did done doing have has had having can could will would
    shall should may might must i me my mine you your yours we us our ours he him his she her hers it its they
    them their what which who whom whose when where why how that this these those there here of and or if but
    then than so as at by for with about to from in into on onto please tell explain give show get some any
    just also very really much many s t re ve ll d m
"""
_LITTLE = frozenset(_LITTLE_WORDS.split())
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
_PLAIN_SYMBOLS = frozenset(" \t\n\r.,;:!?'\"()-_’‘“”–—…¿¡")


@dataclass(frozen=True, slots=True)
class Reading:
    content: tuple[str, ...]  # stems of the words that carry meaning, in order
    quantities: Quantities
    negations: int
    contrasts: dict[int, frozenset[str]]
    symbols: tuple[str, ...]  # what the embedder may not see: signs, emoji, letters of other scripts; sorted


def read(text: str) -> Reading:
    lowered = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    words = _WORD.findall(lowered)
    stems = [stem(word) for word in words]
    content = tuple(
        stemmed for word, stemmed in zip(words, stems, strict=True) if word.split("'")[0] not in _LITTLE
    )
    return Reading(
        content=content,
        quantities=quantities(lowered),
        negations=len(_NEGATION.findall(_HOLLOW.sub(" ", lowered.strip()))),
        contrasts=members(stems),
        symbols=tuple(sorted(sign for sign in lowered if _is_symbol(sign))),
    )


def _is_symbol(sign: str) -> bool:
    if sign in _PLAIN_SYMBOLS:
        return False
    return not sign.isalnum() or ord(sign) > 0x24F  # beyond the Latin letters
