"""Which questions have a cue, by tables of English and Chinese ones; and what a policy makes of it."""

from __future__ import annotations

import json

import pytest

from auth import Principal
from backends import Version
from gateway.body import split
from gateway.controls import Controls
from gateway.cues import DEFAULTS, Cue, find_cue
from gateway.dialects import CHAT
from gateway.eligibility import CuePolicy, Plan, plan

CUES: dict[str, Cue | None] = {
    # One person's facts; and the same words where the answer is everybody's.
    "What is my balance?": "personal",
    "What's my account number?": "personal",
    "Where is my order?": "personal",
    "Show me all my transactions": "personal",
    "How much do I owe?": "personal",
    "Has my refund arrived?": "personal",
    "When is my next appointment?": "personal",
    "Who am I?": "personal",
    "我的余额是多少": "personal",
    "我的快递到哪了？": "personal",
    "我还欠多少": "personal",
    "How do I check my balance?": None,
    "How can I track my order?": None,
    "Where can I see my transactions?": None,
    "How many days do I have to wait for a transfer?": None,
    "My card was declined, what should I do?": None,
    "怎么查我的余额": None,
    # Right for a while only.
    "What is the weather like in Oslo?": "time-bound",
    "What's the latest version of Python?": "time-bound",
    "Who won today?": "time-bound",
    "What time is it?": "time-bound",
    "What is the current price of gold?": "time-bound",
    "What's the EUR to USD rate right now?": "time-bound",
    "今天有什么新闻": "time-bound",
    "现在几点了": "time-bound",
    "最新的手机是哪款": "time-bound",
    "What is the time complexity of quicksort?": None,
    "Explain alternating current": None,
    "Who was president in 1960?": None,
    "一年有多少天": None,
    # Whoever asks so wants something new.
    "Tell me another joke": "freshness",
    "another one": "freshness",
    "Give me a different example": "freshness",
    "Pick a random number": "freshness",
    "Try again": "freshness",
    "say that again, please": None,
    "Regenerate": "freshness",
    "one more time": "freshness",
    "再讲一个": "freshness",
    "换一个": "freshness",
    "重新写": "freshness",
    "Can I use another card?": None,
    "What is a random variable?": None,
    "How do I get another card?": None,
    "什么是随机变量": None,
    # Nothing by itself.
    "continue": "low-information",
    "Go on.": "low-information",
    "yes": "low-information",
    "OK!": "low-information",
    "why?": "low-information",
    "2": "low-information",
    "the second one": "low-information",
    "hahahaha": "low-information",
    "???": "low-information",
    "ok ok ok": "low-information",
    "继续": "low-information",
    "好的": "low-information",
    "是": "low-information",
    "Continue the story of the fox": None,
    "ping": None,
    "Why is the sky blue?": None,
    "Paris": None,
    "北京": None,
    "茶": None,
}


@pytest.mark.parametrize("text", CUES)
def test_a_question_has_this_cue(text: str) -> None:
    assert find_cue(text) == CUES[text]


def test_a_long_text_is_no_question_with_a_cue() -> None:
    assert find_cue("today " * 1000) is None


def planned(text: str, cues: CuePolicy | None = None, *, mode: str = "semantic") -> Plan:
    body = {"model": "m1", "messages": [{"role": "user", "content": text}]}
    return plan(
        split(json.dumps(body).encode()).values,
        dialect=CHAT,
        principal=Principal(key_id="k1", tenant="acme", service="web"),
        version=Version("m1", "r1"),
        controls=Controls(),
        cues=cues or CuePolicy(),
    )


def test_by_default_a_personal_question_is_matched_exactly_only() -> None:
    assert planned("What is my balance?").skip_semantic == "personal"


def test_by_default_a_time_bound_answer_is_kept_for_a_short_time_and_matched_exactly_only() -> None:
    found = planned("Who won today?", CuePolicy(time_bound_ttl_s=60))
    assert (found.skip_semantic, found.most_ttl_s) == ("time-bound", 60)


def test_by_default_who_asks_for_another_is_neither_given_nor_leaves_a_stored_one() -> None:
    assert planned("Tell me another joke").bypass == "freshness"


def test_by_default_a_turn_without_a_meaning_of_its_own_is_matched_exactly_only() -> None:
    assert planned("continue").skip_semantic == "low-information"


@pytest.mark.parametrize("cue", DEFAULTS)
def test_a_policy_can_share_questions_with_a_cue_like_any_other(cue: Cue) -> None:
    text = next(text for text, found in CUES.items() if found == cue)
    assert planned(text, CuePolicy({**DEFAULTS, cue: "semantic"})).skip_semantic is None
    assert planned(text, CuePolicy({**DEFAULTS, cue: "bypass"})).bypass == cue
