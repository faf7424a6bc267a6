"""Finds what a "not" denies in an English clause: the verb behind it, or a thing, and not all that follows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .contrasts import stem

_NO_WORDS = """
    not non never without none nobody nothing neither nor cannot cant wont dont doesnt didnt isnt arent
    wasnt werent hasnt havent shouldnt couldnt wouldnt no unable avoid avoiding prevent preventing
    refuse refuses refusing refused stop stops stopping lack lacks lacking hardly barely scarcely except excluding
"""
NEGATIVE = frozenset(_NO_WORDS.split())
_NO_THING_WORDS = (
    "no without none non neither nor lack lacks lacking stop stops stopping avoid avoiding prevent preventing"
    " except excluding"
)
_NO_THING = frozenset(_NO_THING_WORDS.split())
_NO_VERB = frozenset(("not", "never", "cannot", "unable"))
_NOT = ("n't", "nt")
_DETERMINER_WORDS = "my your our his her their its the a an this that these those"
_DETERMINERS = frozenset(_DETERMINER_WORDS.split())
# A "not" before these is about what follows: "won't let me pay", "can't make a payment".
_THROUGH = frozenset(stem(word) for word in ("seem", "let", "allow", "able", "make"))
# … and before these about what somebody says: "I don't think it worked".
_SAYING = frozenset(stem(word) for word in ("think", "believe"))
# "Didn't get the right amount" is about what it was, not about getting.
_QUALITIES = frozenset(stem(word) for word in ("right", "correct", "same", "full", "whole", "all", "enough"))
# Verbs that say too little to be kept, and are denied all the same.
_BARE_VERBS = frozenset(("get", "give", "show"))
_BEFORE_VERB_WORDS = "i you we they it he she to able even yet still ever"
_BEFORE_VERB = frozenset(_BEFORE_VERB_WORDS.split())
_ADVERBS = frozenset(("yet", "still", "even", "ever", "actually", "really", "currently"))
# Adverbs, and not family, Italy or supply.
MANNER = re.compile(r"\w{2,}(?:al|ant|ent|ous|ive|ful|ed|ing|ick|ate|ite|ete|ect|act|ar|ow)ly")
_PARTICIPLE = re.compile(r"\w{2,}(?:ing|ed)")
_BEFORE_PARTICIPLE = ("is", "are", "was", "were", "has", "have")
_PLACES = frozenset(("there", "here", "mine", "ours"))
_AT = frozenset(("in", "on", "at", "have"))
_OWN = frozenset(("my", "our"))
_NOUN_REACH = 2
_VERB_REACH = 2
_QUALITY_REACH = 4


@dataclass(frozen=True, slots=True)
class Denial:
    """Stems. `is_either`: one of them at least, since nothing says where the subject ends and the verb begins."""

    words: frozenset[str] = frozenset()
    is_either: bool = False


def denial(no: str, behind: Sequence[str], *, stems: dict[str, str], little: frozenset[str]) -> Denial:
    """Of the negative word `no` and the words behind it in its clause. One that denies nothing is still a denial:
    where something is, or that it was against the rules, says little about what it is."""
    if no in _NO_THING:
        is_act = bool(behind) and behind[0].endswith("ing") and behind[0].removesuffix("ing") not in little
        return Denial(frozenset(_said(behind, stems, little)[: 1 if is_act else _NOUN_REACH]))
    is_verb_denied = no in _NO_VERB or no.endswith(_NOT)
    if _is_of_place(no, behind):
        return Denial()
    verb = next((word for word in behind if word not in _BEFORE_VERB), "")
    if verb in _BARE_VERBS and is_verb_denied:
        return Denial(frozenset((stems.get(verb, verb),)))
    said = _said(behind, stems, little)
    if no.endswith(_NOT) and behind and behind[0] in _DETERMINERS:
        return _of_inverted(no, behind, said, stems)
    while said and said[0] in _THROUGH:
        del said[0]
    if said and said[0] in _SAYING:
        return _either(said[1 : 2 + _VERB_REACH])
    quality = next((word for word in said[1:_QUALITY_REACH] if word in _QUALITIES), None)
    return Denial(frozenset(said[:1] if quality is None else (quality,)))


def _said(words: Sequence[str], stems: dict[str, str], little: frozenset[str]) -> list[str]:
    """The stems of the words that say something; adverbs only where nothing follows that they belong to."""
    return [
        stems.get(bare, bare)
        for at, word in enumerate(words)
        if (bare := word.split("'")[0]) not in little
        and word not in NEGATIVE
        and not (at + 1 < len(words) and MANNER.fullmatch(word))
        and not (word == "all" and words[at - 1] == "at")
    ]


def _is_of_place(no: str, behind: Sequence[str]) -> bool:
    first = next((at for at, word in enumerate(behind) if word not in _ADVERBS), len(behind))
    one, two = (*behind[first : first + 2], "", "")[:2]
    if no == "shouldn't":
        return one == "have" or (one == "be" and two in _PLACES)
    return one in _PLACES or (one in _AT and two in _OWN)


def _of_inverted(no: str, behind: Sequence[str], said: list[str], stems: dict[str, str]) -> Denial:
    """In "hasn't my parcel arrived" the participle; in "didn't my card payment work" some word behind the first."""
    participle = next((word for word in behind[2:] if _PARTICIPLE.fullmatch(word)), None)
    if participle is not None and no.removesuffix("nt").removesuffix("n't") in _BEFORE_PARTICIPLE:
        return Denial(frozenset((stems.get(participle, participle),)))
    return _either(said[1 : 1 + _VERB_REACH])


def _either(words: list[str]) -> Denial:
    return Denial(frozenset(words), is_either=len(words) > 1)
