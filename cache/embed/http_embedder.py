"""An embedder behind an OpenAI-style embeddings endpoint, such as vLLM's pooling models or `llama.cpp --embedding`.

What a server cuts off, or reads as unknown, is not seen from outside. So a text is refused where it may be longer than
what the model reads: by the server's own count of tokens or, where it gives none, by bytes, of which a token has at
least one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import httpx
import msgspec

from ..errors import EmbedderFailed, ModelError, UnfitText
from ..model import Vector
from ..vectors import UnusableVector, to_unit
from .readable import check_length

_MOST_AT_ONCE = 32
_SPECIALS = 2  # tokens that a model may put around a text
_BYTES_A_NUMBER = 32  # of JSON
_BYTES_BESIDE = 1 << 16
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.5, 15.0
_TELLING = 300  # characters of a refusal that an operator is shown at the start


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Reply(msgspec.Struct):
    data: list[_Item]
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Reply)


class _Refused(Exception):
    """About what was asked, not about the server."""

    def __init__(self, status: int, told: bytes) -> None:
        super().__init__(f"status {status}: {told[:_TELLING].decode(errors='replace')}")


class HttpEmbedder:
    """`url` is the base, such as `http://embedder:8000`; `window` is how many tokens the model reads.

    `revision` names what runs there, so that vectors of another one are not compared with these. No call takes longer
    than `timeout_s`, and none is tried again. After a failure the server is left alone for a while, so that only one
    look-up in a while waits for it.
    """

    most_at_once = _MOST_AT_ONCE

    def __init__(
        self,
        url: str,
        *,
        model: str,
        dimension: int,
        window: int,
        revision: str = "",
        key: str | None = None,
        timeout_s: float = 2.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._client = httpx.Client(headers=headers, timeout=timeout_s, trust_env=False)
        self._url = f"{url}/v1/embeddings"
        self._model = model
        self._dimension = dimension
        self._window = window
        self._timeout_s = timeout_s
        self._fingerprint = f"http/{model}/{revision}/{dimension}"
        self._now = now
        self._pause_s = _FIRST_PAUSE_S
        self._not_before = 0.0

    def __repr__(self) -> str:
        return f"HttpEmbedder({self._fingerprint})"

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def dimension(self) -> int:
        return self._dimension

    def probe(self) -> None:
        """Raises `ModelError` where the server answers, but not with vectors of this model and size. A server that
        is away is no error: it may come."""
        try:
            reply = self._asked(["What is a kettle for?"])
        except EmbedderFailed:
            return
        except (_Refused, UnusableVector) as error:
            raise ModelError(f"{self._url} does not embed with {self._model!r}: {error}") from error
        size = len(reply.data[0].embedding)
        if size != self._dimension:
            raise ModelError(
                f"{self._url} gives vectors of {size} numbers with {self._model!r}, and cache.embedder.dimension is "
                f"{self._dimension}: set it to {size} if this is the model you mean"
            )

    def embed(self, text: str) -> Vector:
        """Raises `UnfitText` for a text that the server refuses, and `EmbedderFailed` where it does not answer."""
        self._check(text)
        try:
            reply = self._asked([text])
        except _Refused as error:
            raise UnfitText("embedder-refused") from error
        tokens = 0 if reply.usage is None else reply.usage.prompt_tokens
        # At the window a text may have been cut to it.
        if tokens >= self._window if tokens else not self._fits_surely(text):
            raise UnfitText("too-long")
        return to_unit(reply.data[0].embedding, dimension=self._dimension)

    def embed_many(self, texts: Sequence[str]) -> list[Vector | Exception]:
        """In one call those that surely fit, whose tokens need no counting; the others one by one."""
        together = [text for text in texts if self._fits_surely(text)]
        found: dict[str, Vector] = {}
        if len(together) > 1:
            # Where one of them is refused or has no vector, it is told from the others by asking for each.
            with contextlib.suppress(_Refused, UnusableVector, EmbedderFailed):
                reply = self._asked(together)
                for text, item in zip(together, reply.data, strict=True):
                    found[text] = to_unit(item.embedding, dimension=self._dimension)
        return [found[text] if text in found else self._alone(text) for text in texts]

    def close(self) -> None:
        self._client.close()

    def _alone(self, text: str) -> Vector | Exception:
        try:
            return self.embed(text)
        except (UnfitText, UnusableVector, EmbedderFailed) as error:
            return error

    def _check(self, text: str) -> None:
        check_length(text, window=self._window)
        if not text.strip():
            raise UnfitText("no-words")
        if _bytes_of(text) is None:
            raise UnfitText("unknown-tokens")

    def _fits_surely(self, text: str) -> bool:
        size = _bytes_of(text)
        return size is not None and size + _SPECIALS < self._window and bool(text.strip())

    def _asked(self, texts: list[str]) -> _Reply:
        """One item for each text, in order."""
        if self._now() < self._not_before:
            raise EmbedderFailed("the embeddings server failed a moment ago")
        body: dict[str, object] = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            status, told = self._sent(
                body, limit=_BYTES_BESIDE + len(texts) * self._dimension * _BYTES_A_NUMBER
            )
        except httpx.HTTPError as error:
            raise self._failed(type(error).__name__) from error
        # llama.cpp says 500 to a text that is too long for it: where it may be that, it is not the server's fault.
        is_about_text = status == 500 and not all(map(self._fits_surely, texts))
        if status in (408, 429) or (status >= 500 and not is_about_text):
            raise self._failed(f"status {status}")
        self._pause_s = _FIRST_PAUSE_S
        if status != 200:
            raise _Refused(status, told)
        try:
            reply = _decoder.decode(told)
        except msgspec.MsgspecError as error:  # a NaN is no JSON
            raise UnusableVector(f"no vectors in the reply: {error}") from error
        reply.data.sort(key=lambda item: item.index)
        if [item.index for item in reply.data] != list(range(len(texts))):
            raise UnusableVector(f"{len(reply.data)} vectors for {len(texts)} texts")
        return reply

    def _sent(self, body: dict[str, object], *, limit: int) -> tuple[int, bytes]:
        until = self._now() + self._timeout_s
        told = bytearray()
        with self._client.stream("POST", self._url, json=body) as response:
            for chunk in response.iter_bytes():
                told += chunk
                if len(told) > limit:
                    raise httpx.DecodingError(f"more than {limit} bytes")
                if self._now() > until:  # httpx bounds the wait for each chunk, not for all
                    raise httpx.ReadTimeout("not whole in time")
        return response.status_code, bytes(told)

    def _failed(self, what: str) -> EmbedderFailed:
        self._not_before = self._now() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
        return EmbedderFailed(f"the embeddings server failed: {what}")


def _bytes_of(text: str) -> int | None:
    """None for a text with half a surrogate pair, which cannot be sent."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None
