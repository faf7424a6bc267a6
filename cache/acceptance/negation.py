"""Reads what a text denies. "With a visa" and "without a visa" are near neighbours and different questions.

What counts is not that one text says "not" and the other does not ("my refund hasn't arrived" asks the
same as "where is my refund"), but that one denies what the other affirms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_DETERMINER_WORDS = "my your our his her their its the a an this that these those"
_NO_THING_WORDS = (
    "no without none non neither nor lack lacks lacking stop stops stopping avoid avoiding prevent preventing"
    " except excluding"
)
_NO_WORDS = """
    not non never without none nobody nothing neither nor cannot cant wont dont doesnt didnt isnt arent
    wasnt werent hasnt havent shouldnt couldnt wouldnt no unable avoid avoiding prevent preventing
    refuse refuses refusing refused stop stops stopping lack lacks lacking hardly barely scarcely except excluding
"""
_NO = frozenset(_NO_WORDS.split())
# Forms that ask for the same with and without the negation.
_HOLLOW = re.compile(
    r"^(?:isn't|aren't|wasn't|weren't|doesn't|didn't|won't|wouldn't|couldn't|shouldn't|can't|haven't|hasn't)\b"
    r"(?=.*\?\W*$)"
    r"|^don't(?= (?:i|you|we|they|people|the|my|your)\b.*\?\W*$)"
    r"|,\s*(?:is|are|was|were|do|does|did|wo|would|could|should|ca|have|has)n't (?:it|he|she|they|we|you|i)\b"
    r"|\bor not\b|\bwhy not\b|\bnot only\b(?=.*\bbut\b)|\bno\.? (?=\d)|\bno longer\b(?= than)|\bcan't wait\b|\bif not\b"
)
# Other ways to say "without".
_WITHOUT = re.compile(
    r"\b(?P<thing>\w+)-free\b|\bfree (?:of|from)\b(?! charge)"
    r"|\b(?P<all>all|any(?:thing|one|body)|every(?:thing|one|body)) but\b"
)
_CLAUSE = re.compile(r"[.,;:?!()]|\b(?:but|and|because|so|if|when|while|although|then)\b")
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_NOUN_REACH = 2
_ALIKE = 0.7
_DETERMINERS = frozenset(_DETERMINER_WORDS.split())
_NO_THING = frozenset(_NO_THING_WORDS.split())

_IDIOMS_ZH = re.compile(
    "不错|不同|不过|不管|不如|不好意思|对不起|差不多|了不起|不客气|不仅|不但|不断|不得不|不妨|何不|无聊|无线|无数|无论|非常|非洲|没关系"
    "|没什么区别|区别|特别|别人|别的|级别|性别|别墅|告别|分别|未来|未必|差别|不止|不一定|要不然|不然|受不了|忍不住|来不及|无锡|不锈钢"
)
_ASK_BOTH_ZH = re.compile(r"(.)[不没]\1|(?<=.)(?:吗|没|不|没有)(?=[?？]?$)|是否|能否|可否|会否|有无|与否")
# "Why don't we …", "how come not …": a proposal, not a denial.
_PROPOSAL_ZH = re.compile("(?:为什么|为啥|为何|怎么)不(?=试|来|去|用|考虑|直接)")
_NO_ZH = re.compile("不|没有?|无法|无|未|别|勿|非|取消|禁止|拒绝")


@dataclass(frozen=True, slots=True)
class Polarity:
    """`denied` and `affirmed` are stems; a word denied anywhere is not among the affirmed."""

    denied: frozenset[str]
    affirmed: frozenset[str]
    count: int

    def contradicts(self, other: Polarity) -> bool:
        if self.denied & other.affirmed or other.denied & self.affirmed:
            return True
        one, two = self.denied | self.affirmed, other.denied | other.affirmed
        # Word for word the same but for a "not": whatever it denies.
        is_alike = len(one & two) > _ALIKE * len(one | two) or not (one | two)
        return (self.count - other.count) % 2 == 1 and is_alike


def polarity(lowered: str, *, stem: dict[str, str], little: frozenset[str]) -> Polarity:
    """Of an English text; `stem` maps its words to their stems, `little` are the words that deny nothing alone."""
    plain = _WITHOUT.sub(_without, _HOLLOW.sub(" ", lowered.strip()))
    denied: set[str] = set()
    all_words: set[str] = set()
    count = 0
    for clause in _CLAUSE.split(plain):
        words = _TOKEN.findall(clause)
        for at, word in enumerate(words):
            bare = word.split("'")[0]
            if word in _NO or word.endswith("n't"):
                count += 1
                denied.update(_reached(word, words[at + 1 :], stem, little))
            elif bare not in little:
                all_words.add(stem.get(bare, bare))
    return Polarity(frozenset(denied), frozenset(all_words - denied), count)


def polarity_zh(text: str) -> Polarity:
    """Chinese marks no word boundaries: only how often a text denies is compared."""
    plain = _PROPOSAL_ZH.sub("", _ASK_BOTH_ZH.sub(r"\1", _IDIOMS_ZH.sub("", text)))
    count = len(_NO_ZH.findall(plain))
    return Polarity(frozenset(), frozenset(), count)


def _without(match: re.Match[str]) -> str:
    return f"{match['all'] or ''} without {match['thing'] or ''}"


def _reached(no: str, words: Sequence[str], stem: dict[str, str], little: frozenset[str]) -> list[str]:
    """What a "not" denies: the verb behind it, or behind the subject ("hasn't my parcel arrived"); "no", "without"
    and their like deny a thing, of one or two words."""
    said = [
        stem.get(bare, bare)
        for word in words
        if (bare := word.split("'")[0]) not in little and word not in _NO
    ]
    if no in _NO_THING:
        return said[:_NOUN_REACH]
    at = 1 if no.endswith("n't") and bool(words) and words[0] in _DETERMINERS else 0
    return said[at : at + 1]
