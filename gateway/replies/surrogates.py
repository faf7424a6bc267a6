"""Mends what model servers send when they cut a character in half: a lone surrogate escape becomes U+FFFD.

A caller's own body with one is refused. An answer with one is worth having, but nothing that encodes text can take
half a character: the caller's SDK would fail on it, or on the next turn that quotes it.
"""

from __future__ import annotations

import re

_has_any = re.compile(rb"\\u[dD][89a-fA-F]").search
# Whole pairs and all other escapes are passed over, so that the backslash of a text is not taken for an escape's.
_escape = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def mend(data: bytes) -> bytes:
    """The same JSON where every character is whole; the very same object where it was."""
    if _has_any(data) is None:
        return data
    return _escape.sub(lambda found: rb"\ufffd" if found[1] else found[0], data)
