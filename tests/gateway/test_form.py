"""Where a form names its model."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.data.form import find_model
from gateway.errors import InvalidRequest

TYPE = b"multipart/form-data; boundary=XX"


def form(*parts: tuple[str, bytes]) -> bytes:
    made = b"".join(
        b'--XX\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name.encode(), value)
        for name, value in parts
    )
    return made + b"--XX--\r\n"


def test_the_model_is_found_and_nothing_else_is_changed() -> None:
    raw = form(("file", b'\0\xff name="model"\r\n\r\nnot this'), ("model", b"whisper"), ("language", b"en"))
    found = find_model(raw, TYPE)
    assert found.model == "whisper"
    assert found.renamed(raw, "upstream/w") == raw.replace(b"whisper", b"upstream/w")


@given(st.binary(max_size=300).filter(lambda data: b"--XX" not in data))
def test_whatever_the_file_holds(data: bytes) -> None:
    raw = form(("file", data), ("model", b"m1"))
    assert find_model(raw, TYPE).renamed(raw, "m1") == raw


@pytest.mark.parametrize("boundary", [b"boundary=XX", b'boundary="XX"', b"charset=utf-8; Boundary=XX"])
def test_boundaries_are_written_in_several_ways(boundary: bytes) -> None:
    assert find_model(form(("model", b"m")), b"Multipart/Form-Data; " + boundary).model == "m"


@pytest.mark.parametrize(
    ("raw", "type_", "status"),
    [
        (form(("file", b"x")), TYPE, 400),
        (form(("model", b"a"), ("model", b"b")), TYPE, 400),
        (form(("model", b"")), TYPE, 400),
        (form(("model", b"m" * 600)), TYPE, 400),
        (form(("model", b"m"))[:-8], TYPE, 400),
        (b"", TYPE, 400),
        (b"--XX--", TYPE, 400),
        (b"--XX\r\nno end of the head", TYPE, 400),
        (form(*[("a", b"x")] * 300, ("model", b"m")), TYPE, 400),
        (form(("model", b"m")), b"application/json", 415),
        (form(("model", b"m")), b"multipart/form-data", 415),
    ],
)
def test_what_is_no_such_form_is_refused(raw: bytes, type_: bytes, status: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        find_model(raw, type_)
    assert refused.value.status == status


@pytest.mark.parametrize("parts", [[], [("model", b"own")]])
def test_a_model_of_the_path_stands_for_the_forms_own(parts: list[tuple[str, bytes]]) -> None:
    raw = form(("file", b"x"), *parts)
    found = find_model(raw, TYPE, model="m1")
    assert found.model == "m1"
    assert find_model(found.renamed(raw, "w"), TYPE).model == "w"


@given(st.binary(max_size=400))
def test_rubbish_raises_nothing_but_its_own_error(raw: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        find_model(b"--XX" + raw, TYPE)
