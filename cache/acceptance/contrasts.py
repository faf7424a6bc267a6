"""Lists words that exclude each other: two questions that differ in them are different questions.

Each line is a group. Two texts clash in a group if both use it and not with the same members.
"""

from __future__ import annotations

import re

_GROUPS = """
enable disable | activate deactivate | on off | up down | in out | open close | start stop | begin end
add remove | insert delete | create delete | increase decrease | raise lower | increase reduce | grow shrink
before after | earlier later | first last | above below | over under | inside outside
more less | more fewer | most least | maximum minimum | max min | high low | higher lower | highest lowest
big small | large small | bigger smaller | larger smaller | long short | longer shorter | wide narrow
buy sell | lend borrow | import export | input output | upload download | send receive | push pull
accept reject | accept decline | accept refuse | allow deny | allow block | allow forbid | permit forbid
approve reject
lock unlock | install uninstall | mount unmount | subscribe unsubscribe | follow unfollow | connect disconnect
encrypt decrypt | encode decode | compress decompress | zip unzip | pack unpack | serialize deserialize
show hide | win lose | gain lose | pass fail | succeed fail | true false | yes no | best worst | better worse
good bad | cheap expensive | cheapest expensive | safe dangerous | legal illegal
possible impossible | hot cold | warm cool
fast slow | faster slower | fastest slowest | early late | old new | older newer | oldest newest | young old
left right | north south east west | northern southern eastern western
vertical horizontal | row column | male female | men women | boy girl | guy girl | mother father
son daughter | husband wife
love hate | like dislike | gain loss | profit loss | advantage disadvantage | pro con | benefit drawback
arrive depart | arrival departure | enter exit | entrance exit | sunrise sunset | day night | morning evening
ascend descend | ascending descending | encourage discourage | attack defend | credit debit | deposit withdraw
public private | internal external | online offline | manual automatic | sync async | synchronous asynchronous
positive negative | plus minus | multiply divide | odd even | rich poor | strong weak | hard soft | hard easy
empty full | dry wet | dark light | heavy light | thick thin | deep shallow | alive dead | single married
freeze thaw | melt freeze | expand collapse | merge split | join leave | hire fire | lead follow
yesterday today tomorrow | daily weekly monthly quarterly yearly
second minute hour day week month year
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
spring summer autumn winter | breakfast lunch dinner
english german french spanish italian dutch portuguese russian chinese japanese korean arabic turkish polish
python javascript typescript java ruby rust golang kotlin swift php perl scala haskell
json xml yaml csv html markdown | windows linux macos android ios
"""
_SUFFIXES = ("ing", "ed", "es", "s", "e")
_SHORTEST_STEM = 3


def stem(word: str) -> str:
    """Takes off what English adds to verbs and nouns: crude, but the same on both sides."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            word = word[: -len(suffix)]
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2]:
        return word[:-1]
    return word


def _groups() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for number, group in enumerate(re.split(r"[|\n]", _GROUPS.strip())):
        for word in group.split():
            found[stem(word)] = (*found.get(stem(word), ()), number)
    return found


_GROUPS_OF = _groups()


def members(stems: list[str]) -> dict[int, tuple[str, ...]]:
    """Which groups a text uses, and with which members, in order: English to French is not French to English."""
    used: dict[int, tuple[str, ...]] = {}
    for word in stems:
        for group in _GROUPS_OF.get(word, ()):
            if word not in used.get(group, ()):
                used[group] = (*used.get(group, ()), word)
    return used
