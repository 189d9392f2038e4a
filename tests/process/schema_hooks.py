"""Hooks that tell schemathesis of the gateway's msgpack, and of when it may refuse good data."""

from __future__ import annotations

from typing import Any

import msgspec
import schemathesis
from schemathesis import Response
from schemathesis.generation import GenerationMode

MSGPACK = "application/msgpack"
SEMANTIC = ("not recorded: ", "no event was recorded: ")
"""Answers to values that fit the schema and can't be recorded, such as a span that ends before it starts."""


@schemathesis.serializer(MSGPACK)
def to_msgpack(_context: Any, value: Any) -> bytes:
    return msgspec.msgpack.encode(within_64_bits(value))


@schemathesis.deserializer(MSGPACK)
def from_msgpack(_context: Any, response: Response) -> Any:
    return msgspec.msgpack.decode(response.content)


def within_64_bits(value: Any) -> Any:
    """Return a copy without integers that msgpack does not have."""
    if isinstance(value, dict):
        return {key: within_64_bits(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [within_64_bits(inner) for inner in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return float(value)
    return value


@schemathesis.check
def refusals_have_a_reason(_context: Any, response: Response, case: Any) -> None:
    """Accept a refusal of data that fits the schema only if it is about what the schema can't say."""
    mode = case.meta.generation.mode if case.meta is not None else None
    if response.status_code != 422 or mode is not GenerationMode.POSITIVE:
        return
    packed = MSGPACK in response.headers["content-type"][0]
    failure = msgspec.msgpack.decode(response.content) if packed else response.json()
    assert any(words in failure["message"] for words in SEMANTIC), failure
