"""Whatever bytes come as headers: a principal or a clean refusal, and nothing of what was sent in it."""

from __future__ import annotations

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from auth import Authenticator, AuthError, Principal
from auth.testing import MemoryDirectory
from tests.auth.asking import minted

RECORD, HEADERS = minted()
KEY = HEADERS[0][1].removeprefix(b"Bearer ")

NAMES = st.sampled_from([b"authorization", b"x-api-key", b"api-key", b"cookie"]) | st.binary(max_size=12)
SCHEMES = st.sampled_from([b"Bearer ", b"bearer ", b"BEARER\t", b"Basic ", b"Bearer", b"Bearer  ", b""])
# Keys that are nearly right: cut, doubled, with bytes put in, another secret, another id.
NEARLY = st.builds(
    lambda at, added, cut: KEY[:at] + added + KEY[at + cut :],
    st.integers(0, len(KEY)),
    st.binary(max_size=4),
    st.integers(0, 4),
)
VALUES = st.binary(max_size=64) | st.builds(bytes.__add__, SCHEMES, NEARLY | st.binary(max_size=300))


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=4))
@example([(b"authorization", b"Bearer sk-\xf1and\xfa")])
@example([(b"authorization", "Bearer “key”".encode())])
@example([(b"x-api-key", b"\x80")])
@example([(b"x-api-key", b"\t")])
@example([(b"x-api-key", b"k" * 16_384)])
@example([(b"authorization", b"Bearer " + KEY), (b"authorization", b"Bearer " + KEY)])
@example([(b"authorization", b"Bearer  " + KEY)])
@example([(b"authorization", b"Bearer")])
@example([(b"authorization", b"Basic dTpw")])
@example([(b"x-api-key", KEY + b"\r\nx-admin: 1")])
@example([(b"x-api-key", KEY[:-1] + b"\x00")])
def test_any_headers_are_a_principal_or_a_clean_refusal(headers: list[tuple[bytes, bytes]]) -> None:
    answer = asyncio.run(_asked(headers))

    if isinstance(answer, Principal):
        assert all(
            KEY in value for name, value in headers if name in (b"authorization", b"x-api-key", b"api-key")
        )
    else:
        assert str(answer).isascii()
        assert "-".join(KEY.decode().split("-")[2:]) not in str(answer)


async def _asked(headers: list[tuple[bytes, bytes]]) -> Principal | AuthError:
    directory = MemoryDirectory()
    await directory.add(RECORD)
    try:
        return await Authenticator(directory).authenticate(headers)
    except AuthError as error:
        return error
