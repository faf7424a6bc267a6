"""Finds the one field of a `multipart/form-data` body that the gateway needs; every other byte stays as it is. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InvalidRequest

_BOUNDARY = re.compile(
    rb'multipart/form-data\s*;.*?\bboundary=(?:"([^"\r\n]{1,70})"|([^\s;"\r\n]{1,70}))', re.I
)
_NAME = re.compile(rb'content-disposition\s*:\s*form-data\s*;.*?\bname="model"', re.I)
_LONGEST_HEAD = 4096
_LONGEST_NAME = 512
_MOST_PARTS = 256
_PART = b'\r\ncontent-disposition: form-data; name="model"\r\n\r\n'


@dataclass(frozen=True, slots=True)
class FormModel:
    """The model that a form is for, and where its name goes, with what stands around it where there was none."""

    model: str
    start: int
    end: int
    before: bytes = b""
    after: bytes = b""

    def renamed(self, raw: bytes, model: str) -> bytes:
        return b"".join((raw[: self.start], self.before, model.encode(), self.after, raw[self.end :]))


def find_model(raw: bytes, content_type: bytes, *, model: str | None = None) -> FormModel:
    """A `model` that the path names stands for the form's own, as at Azure, which may then have none.

    Raises InvalidRequest where the body is no such form, or has not exactly one such field.
    """
    boundary = _BOUNDARY.match(content_type)
    if boundary is None:
        error = InvalidRequest(
            f"The body comes as {content_type[:64].decode('latin-1')!r}; expected multipart/form-data with a boundary.",
            code="unsupported_media_type",
        )
        error.status = 415
        raise error
    mark = b"--" + (boundary[1] or boundary[2])
    found = [field for field in _fields(raw, mark) if field is not None]
    if not found and model is not None:
        return FormModel(model, 0, 0, mark + _PART, b"\r\n")
    if len(found) != 1:
        raise InvalidRequest(
            f"The form must have the field model once; it has it {len(found)} times.", param="model"
        )
    start, end = found[0]
    if model is not None:
        return FormModel(model, start, end)
    if not 0 < end - start <= _LONGEST_NAME:
        raise InvalidRequest("model must be a non-empty string.", param="model")
    return FormModel(raw[start:end].decode("utf-8", "replace"), start, end)


def _fields(raw: bytes, mark: bytes) -> list[tuple[int, int] | None]:
    """Of each part, where its value lies if it is the model's."""
    if not raw.startswith(mark):
        raise InvalidRequest("The form does not begin with its boundary.", code="invalid_request")
    fields: list[tuple[int, int] | None] = []
    at = len(mark)
    while raw[at : at + 2] == b"\r\n":
        if len(fields) == _MOST_PARTS:
            raise InvalidRequest(f"The form has more than {_MOST_PARTS} parts.", code="too_many_values")
        head_ends = raw.find(b"\r\n\r\n", at, at + _LONGEST_HEAD)
        part_ends = raw.find(b"\r\n" + mark, at + 2)
        if head_ends < 0 or part_ends < head_ends:
            raise InvalidRequest("The form has a part without an end.", code="invalid_request")
        head = raw[at:head_ends].replace(b"\r\n ", b" ")
        fields.append((head_ends + 4, part_ends) if _NAME.search(head) else None)
        at = part_ends + 2 + len(mark)
    if raw[at : at + 2] != b"--":
        raise InvalidRequest("The form does not end with its boundary.", code="invalid_request")
    return fields
