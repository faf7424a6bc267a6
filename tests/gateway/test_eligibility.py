"""The safety wall: what may share an answer and what never may, field by field."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth import Principal
from backends import Version
from gateway.body import split
from gateway.controls import Controls
from gateway.dialects import CHAT
from gateway.eligibility import FIELDS, Kind, Plan, plan
from gateway.errors import InvalidRequest

ASKER = Principal(key_id="k1", tenant="acme", service="web")
VERSION = Version("m1", "r1")
DEFAULT = Controls()
BASE = {"model": "m1", "messages": [{"role": "user", "content": "What is a kettle for?"}], "temperature": 0}


def planned(
    body: object, *, asker: Principal = ASKER, version: Version = VERSION, controls: Controls = DEFAULT
) -> Plan:
    values = split(json.dumps(body).encode()).values
    return plan(values, dialect=CHAT, principal=asker, version=version, controls=controls)


def same(one: Plan, other: Plan) -> bool:
    return (one.material, one.text) == (other.material, other.text)


# For each ANSWER field two different values a caller could send.
VARIANTS: dict[str, tuple[object, object]] = {
    "temperature": (0.1, 0.2),
    "top_p": (0.1, 1),
    "top_k": (1, 40),
    "min_p": (0.1, 0.2),
    "n": (1, 2),
    "seed": (1, 2),
    "stop": ("a", ["a", "b"]),
    "max_tokens": (10, 20),
    "max_completion_tokens": (10, 20),
    "presence_penalty": (0, 1),
    "frequency_penalty": (0, 1),
    "repetition_penalty": (1, 1.1),
    "logit_bias": ({"1": 1}, {"1": 2}),
    "logprobs": (True, False),
    "top_logprobs": (1, 2),
    "tools": ([{"type": "function", "function": {"name": "get_rain"}}], []),
    "tool_choice": ("auto", "required"),
    "parallel_tool_calls": (True, False),
    "functions": ([{"name": "f"}], [{"name": "g"}]),
    "function_call": ("auto", "none"),
    "response_format": ({"type": "json_object"}, {"type": "text"}),
    "structured_outputs": ({"choice": ["x"]}, {"choice": ["y"]}),
    "modalities": (["text"], ["audio"]),
    "audio": ({"voice": "a"}, {"voice": "b"}),
    "prediction": ({"content": "a"}, {"content": "b"}),
    "reasoning_effort": ("low", "high"),
    "verbosity": ("low", "high"),
    "web_search_options": ({}, {"search_context_size": "low"}),
    "chat_template": ("a", "b"),
    "chat_template_kwargs": ({"enable_thinking": True}, {"enable_thinking": False}),
    "max_output_tokens": (10, 20),
    "max_tool_calls": (1, 2),
    "prompt_logprobs": (0, 1),
    "return_token_ids": (True, False),
    "enable_response_messages": (True, False),
    "include": (["reasoning.encrypted_content"], []),
    "reasoning": ({"effort": "low"}, {"effort": "high"}),
    "text": ({"format": {"type": "text"}}, {"format": {"type": "json_object"}}),
    "truncation": ("auto", "disabled"),
    "instructions": ("a", "b"),
    "suffix": ("a", "b"),
    "echo": (True, False),
    "best_of": (1, 2),
    "prompt": ("a", "b"),
    "input": ("a", "b"),
    "guided_choice": (["x"], ["y"]),
    "a_field_nobody_knows": (1, 2),
}


def test_every_answer_field_of_the_table_is_varied_here():
    answers = {name for name, kind in FIELDS.items() if kind is Kind.ANSWER} - {"messages", "model"}
    assert answers <= VARIANTS.keys()


@pytest.mark.parametrize("field", VARIANTS)
def test_requests_that_differ_in_an_answer_field_never_share(field):
    one, other = VARIANTS[field]
    plans = [planned(BASE), planned(BASE | {field: one}), planned(BASE | {field: other})]
    if field == "temperature":
        plans = plans[1:]
    assert len({p.material for p in plans}) == len(plans)


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=("Cs",))), st.integers(), st.integers())
def test_any_unlisted_field_counts(name, one, other):
    if name in FIELDS or one == other:
        return
    assert not same(planned(BASE | {name: one}), planned(BASE | {name: other}))


@pytest.mark.parametrize(
    "field", [n for n, k in FIELDS.items() if k in (Kind.DELIVERY, Kind.NO_EFFECT, Kind.SCOPE)]
)
def test_requests_that_differ_in_delivery_or_no_effect_share(field):
    assert same(planned(BASE), planned(BASE | {field: "anything"}))


@pytest.mark.parametrize("field", [n for n, k in FIELDS.items() if k is Kind.SIDE_EFFECT])
def test_a_side_effect_is_never_cached(field):
    assert planned(BASE | {field: True}).bypass == f"side-effect-{field.replace('_', '-')}"
    assert planned(BASE | {field: False}).bypass is None


def test_the_same_text_under_two_tenants_never_shares():
    other = replace(ASKER, tenant="umbrella")
    assert not same(planned(BASE), planned(BASE, asker=other))


def test_two_keys_and_services_of_one_tenant_share_unless_the_scope_is_narrower():
    other = Principal(key_id="k2", tenant="acme", service="app")
    assert same(planned(BASE), planned(BASE, asker=other))
    narrow = [replace(asker, cache_scope="service") for asker in (ASKER, other)]
    assert not same(*(planned(BASE, asker=asker) for asker in narrow))


def test_users_are_told_apart_where_the_scope_is_the_user():
    asker = replace(ASKER, cache_scope="user")
    one, other = (planned(BASE | {"user": name}, asker=asker) for name in ("ann", "bo"))
    assert not same(one, other)


def test_tenants_share_only_where_both_opted_in_and_neither_is_narrower():
    askers = [replace(ASKER, tenant=tenant, shared_pool=True) for tenant in ("acme", "umbrella")]
    one, other = (planned(BASE, asker=asker) for asker in askers)
    assert same(one, other)
    assert one.namespace == other.namespace
    assert not same(one, planned(BASE, asker=replace(askers[1], shared_pool=False)))
    assert not same(one, planned(BASE, asker=replace(askers[1], cache_scope="service")))


def test_model_revision_and_namespace_never_merge():
    plans = [
        planned(BASE),
        planned(BASE, version=Version("m2", "r1")),
        planned(BASE, version=Version("m1", "r2")),
        planned(BASE, controls=Controls(namespace="other")),
    ]
    assert len({p.material for p in plans}) == 4


def test_only_the_last_user_text_is_fuzzy():
    one = planned(BASE)
    other = planned(BASE | {"messages": [{"role": "user", "content": "What is a ledger for?"}]})
    assert one.material == other.material
    assert one.text != other.text


def test_earlier_turns_and_system_prompts_count():
    def talk(first: str, system: str) -> Plan:
        return planned(
            BASE
            | {
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": first},
                    {"role": "assistant", "content": "Nile"},
                    {"role": "user", "content": "go on"},
                ]
            }
        )

    plans = [talk("List 3 rivers", "x"), talk("List 3 metals", "x"), talk("List 3 rivers", "y")]
    assert len({p.material for p in plans}) == 3


def test_developer_and_system_are_different_roles_and_names_count():
    messages = [
        [{"role": role, "content": "Be brief."}, {"role": "user", "content": "hi", **extra}]
        for role in ("system", "developer")
        for extra in ({}, {"name": "ann"})
    ]
    assert len({planned(BASE | {"messages": m}).material for m in messages}) == 4


def test_one_text_part_equals_the_string():
    part = [{"role": "user", "content": [{"type": "text", "text": "What is a kettle for?"}]}]
    assert same(planned(BASE), planned(BASE | {"messages": part}))


def test_the_split_of_a_text_into_parts_counts():
    def parts(*texts: str) -> Plan:
        return planned(
            BASE | {"messages": [{"role": "user", "content": [{"type": "text", "text": t} for t in texts]}]}
        )

    assert not same(parts("a", "b\nc"), parts("a\nb", "c"))
    assert not same(parts("a", ""), parts("", "a"))


def test_the_gap_of_the_text_collides_with_nothing():
    nothing = {"role": "user", "content": None}
    empty = {"role": "user", "content": ""}
    absent = {"role": "user"}
    part = {"role": "user", "content": [{"type": "text", "text": None}]}
    plans = [planned(BASE | {"messages": [m]}) for m in (nothing, empty, absent, part)]
    assert len({(p.material, p.text) for p in plans}) == 4


def test_images_are_hashed_by_content_and_never_matched_by_meaning():
    def image(data: str, detail: str = "low", text: str = "What is shown?") -> Plan:
        url = {"url": f"data:image/png;base64,{data}", "detail": detail}
        content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}]
        return planned(BASE | {"messages": [{"role": "user", "content": content}]})

    plans = [image("red"), image("blue"), image("red", detail="high")]
    assert len({p.material for p in plans}) == 3
    assert {p.skip_semantic for p in plans} == {"non-text-part"}
    assert same(image("red"), image("red"))


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": "https://example.org/a.png"},
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "video_url", "video_url": {"url": "file:///a.mp4"}},
    ],
)
def test_content_that_lies_elsewhere_is_never_cached(part):
    content = [{"type": "text", "text": "What is shown?"}, part]
    assert planned(BASE | {"messages": [{"role": "user", "content": content}]}).bypass == "remote-content"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n": 2}, "several-choices"),
        ({"temperature": 1.2}, "temperature"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": [{"role": "tool", "content": "5", "tool_call_id": "c"}]}, "tool-result"),
        (
            {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
            "last-turn-not-user",
        ),
        ({"messages": [{"role": "user", "content": " "}]}, "no-text"),
        ({"messages": [{"role": "user", "content": "Fix this:\n```\nx = 1\n```"}]}, "payload"),
        ({"messages": []}, "last-turn-not-user"),
        ({"temperature": 1}, None),
        ({}, None),
    ],
)
def test_semantic_is_skipped_with_a_reason(change, reason):
    assert planned(BASE | change).skip_semantic == reason


def test_mode_and_controls_decide_what_is_read_and_stored():
    assert planned(BASE, controls=Controls(mode="off")).bypass == "mode-off"
    assert planned(BASE, controls=Controls(mode="exact")).skip_semantic == "mode-exact"
    assert planned(BASE, controls=Controls(reads=False, stores=False)).bypass == "no-store"
    assert planned(BASE, controls=Controls(reads=False)).bypass is None


@pytest.mark.parametrize("messages", [None, "hi", {}, [1], [None]])
def test_messages_that_are_none_are_a_400(messages):
    with pytest.raises(InvalidRequest, match="messages"):
        planned(BASE | {"messages": messages})


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": "hi"}], [1], 5, {"a": 1}])
def test_any_content_is_planned_without_a_fault(content):
    for role in ("user", "assistant", "system"):
        planned(BASE | {"messages": [{"role": role, "content": content}]})
