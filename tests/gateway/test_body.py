"""The one place where a body is taken apart: what goes through untouched, what is equal, what is refused."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.body import canonical, split, split_aside
from gateway.errors import InvalidRequest

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(alphabet=st.characters(exclude_categories=("Cs",)))
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=6)


@given(objects, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_any_object_is_read_as_json_reads_it_and_joined_to_the_same(value, ascii_only, indent):
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    body = split(raw)
    assert json.loads(body.joined({})) == value
    assert {name: json.loads(text) for name, text in body.slices.items()} == value


@given(objects)
def test_order_spacing_and_number_forms_do_not_change_the_canonical_form(value):
    turned = dict(reversed(value.items()))
    one = split(json.dumps(value).encode())
    other = split(json.dumps(turned, indent=3, ensure_ascii=False).encode())
    assert canonical(one.values) == canonical(other.values)


@pytest.mark.parametrize(
    "forms", [["1", "1.0", "1e0", "10e-1"], ["0", "-0", "0.0", "-0.0"], ["0.5", "5e-1", "0.50"]]
)
def test_equal_numbers_are_equal_whatever_their_form(forms):
    assert len({canonical(split(b'{"a":%s}' % form.encode()).values) for form in forms}) == 1


@pytest.mark.parametrize(
    "pair", [("1", "true"), ("1", '"1"'), ("0.1", "0.2"), ("9007199254740993", "9007199254740992")]
)
def test_different_values_stay_different(pair):
    one, other = (canonical(split(b'{"a":%s}' % text.encode()).values) for text in pair)
    assert one != other


def test_odd_number_forms_and_unknown_fields_pass_byte_for_byte():
    raw = b'{"model":"m", "temperature" : 1.50e+0,"x_new":{"b":1,"a":[1.0 ,2]},"t":"caf\\u00e9 \xe2\x82\xac"}'
    joined = split(raw).joined({"model": '"other"'})
    assert (
        joined
        == b'{"model":"other","temperature":1.50e+0,"x_new":{"b":1,"a":[1.0 ,2]},"t":"caf\\u00e9 \xe2\x82\xac"}'
    )


def test_members_are_replaced_added_and_left_out():
    joined = split(b'{"a":1,"b":2}').joined({"a": None, "b": "3", "c": "4"})
    assert joined == b'{"b":3,"c":4}'


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "JSON object"),
        (b"[]", "JSON object"),
        (b"null", "JSON object"),
        (b"\xef\xbb\xbf{}", "JSON object"),
        (b'{"a":1', "position"),
        (b'{"a":1,}', "position"),
        (b'{"a":1}x', "position 7"),
        (b'{"a" 1}', "position 5"),
        (b"{'a':1}", "position 1"),
        (b'{"a":}', "position 5"),
        (b'{"a":1,"a":1}', "twice"),
        (b'{"a":{"b":1,"b":2}}', "twice"),
        (b'{"a":[{"b":1,"\\u0062":2}]}', "twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1e999}', "range of a double"),
        (b'{"a":' + b"9" * 5000 + b"}", "too long"),
        (b'{"a":"\xff"}', "UTF-8"),
        (b'{"a":"hi \\ud83d there"}', "surrogate"),
        (b'{"a":"tab\tinside"}', "position"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
    ],
)
def test_what_two_parsers_could_read_differently_is_refused_with_a_place(raw, says):
    with pytest.raises(InvalidRequest, match=says):
        split(raw)


def nested(depth: int, filling: bytes = b"1") -> bytes:
    """An object around arrays; `depth` counts both."""
    return b'{"a":' + b"[" * (depth - 1) + filling + b"]" * (depth - 1) + b"}"


def test_nesting_has_a_bound_that_does_not_depend_on_the_interpreters() -> None:
    assert split(nested(256)).values.keys() == {"a"}
    for raw in (nested(257), b'{"a":' * 257 + b"1" + b"}" * 257):
        with pytest.raises(InvalidRequest, match="256 arrays and objects") as caught:
            split(raw)
        assert caught.value.code == "nested_too_deeply"


@pytest.mark.parametrize("text", [b"[" * 5000, b'\\"[' * 5000, b'\\\\\\"{' * 5000, b"," * 300_000])
def test_brackets_and_commas_in_a_text_are_no_structure(text: bytes) -> None:
    assert len(split(b'{"a":"%s"}' % text).values["a"]) >= 5000


def test_many_shallow_values_are_fine_and_too_many_are_refused() -> None:
    assert len(split(b'{"a":[%s]}' % b",".join([b"[]"] * 60_000)).values["a"]) == 60_000
    with pytest.raises(InvalidRequest) as caught:
        split(b'{"a":[%s]}' % b",".join([b"[]"] * 150_000))
    assert caught.value.code == "too_many_values"


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{"messages":[{"content":"x"},{"content":"\\ud83d"}]}', "messages.1.content"),
        (b'{"user":"\\udc00x"}', "user"),
        (b'{"a":{"\\ud83d":1}}', None),
        (nested(256, b'"\\ud83d"'), "a" + ".0" * 255),
    ],
)
def test_where_half_a_surrogate_pair_stands_is_told(raw: bytes, place: str | None) -> None:
    with pytest.raises(InvalidRequest, match="surrogate") as caught:
        split(raw)
    assert caught.value.param == place


def test_a_model_in_the_path_stands_for_the_bodys_own() -> None:
    for raw in (b'{"model":"other","n":1}', b'{"n":1}', b'{"model":7,"n":1}'):
        body = split(raw, model="org/m")
        assert body.values == {"model": "org/m", "n": 1}
        assert json.loads(body.joined({})) == {"model": "org/m", "n": 1}


def test_a_whole_surrogate_pair_and_odd_characters_are_fine():
    body = split(b'{"a":"\\ud83d\\ude00 \\u0000 \\uffff"}')
    assert body.values["a"] == "\U0001f600 \x00 \uffff"


def test_an_error_never_quotes_more_than_a_key():
    with pytest.raises(InvalidRequest) as caught:
        split(b'{"messages":"very secret prompt" "x"}')
    assert "secret" not in caught.value.message


async def test_others_are_served_while_a_body_of_many_values_is_read() -> None:
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}] * 50_000}).encode()
    reading = asyncio.create_task(split_aside(raw))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    assert await reading == split(raw)


async def test_a_large_body_is_refused_in_the_same_words() -> None:
    raw = b'{"a":"' + b"x" * 500_000 + b'","a":1}'
    with pytest.raises(InvalidRequest) as caught:
        await split_aside(raw)
    assert caught.value.code == "duplicate_key"
