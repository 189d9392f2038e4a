"""Bodies and queries of requests: from bytes to structs, with errors that name the field."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, inspect

from telemetry import limits
from telemetry.gateway.endpoint import AGAIN, MSGPACK, FieldProblem, Problem
from telemetry.wire.codec import BAD_INPUT

_PATH: Final = re.compile(r" - at (`key` in )?`\$(.*)`$")
_PATH_PART: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_MISSING: Final = re.compile(r"required field `(.*)`$")
_SOME_KEY: Final = "..."  # msgspec does not name the keys of a map
_INT64: Final = 1 << 63
_T = TypeVar("_T", bound=Struct)
_Path = list[str | int]


class BodyRoom:
    """The memory of all bodies that are received or recorded. For one event loop."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Return a block with a function that takes bytes for a request, or raises Problem. Its end frees them."""
        own = 0

        def take(size: int) -> None:
            nonlocal own
            if self._taken + size > limits.GATEWAY_BODIES_BYTES:
                raise Problem(
                    503, "too many large bodies arrive at once; nothing was recorded, try again", headers=AGAIN
                )
            own += size
            self._taken += size

        try:
            yield take
        finally:
            self._taken -= own


def media_type(headers: Mapping[str, str]) -> str:
    """Return the content type of a request without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def unzipped(data: bytes, encoding: str) -> bytes:
    """Undo the compression of a body. Raise Problem for another encoding, a broken body or one too large."""
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return data
    if word not in ("gzip", "deflate"):
        raise Problem(415, f"the content encoding {encoding[:40]!r} is not supported: use gzip, deflate or none")
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | (16 if word == "gzip" else 0))
    try:
        body = unzip.decompress(data, limits.GATEWAY_BODY_BYTES + 1)
    except zlib.error as error:
        raise Problem(400, f"the body is not valid {word}: {error}") from None
    if len(body) > limits.GATEWAY_BODY_BYTES or unzip.unconsumed_tail:
        raise too_large()
    if not unzip.eof:
        raise Problem(400, f"the {word} body is cut off")
    return body


def too_large() -> Problem:
    return Problem(
        413,
        f"the body is too large: the limit is {limits.GATEWAY_BODY_BYTES // limits.MIB} MiB; send smaller batches",
    )


def plain(data: bytes, content_type: str) -> Any:
    """Decode a body into plain Python values. Raise Problem if it is not valid.

    JSON may have NaN and Infinity, which Python's own encoder writes.
    """
    if content_type == MSGPACK:
        try:
            return msgspec.msgpack.decode(data)
        except BAD_INPUT as error:
            raise Problem(400, f"the body is not valid msgpack: {error}") from None
    try:
        return msgspec.json.decode(data)
    except BAD_INPUT as first:
        try:
            document = json.loads(data)
            msgspec.json.encode(document)  # half a surrogate pair can't be encoded, and no record could hold it
        except (ValueError, RecursionError):
            raise Problem(400, f"the body is not valid JSON: {first}") from None
        return document


def converted(value: Any, kind: type[_T], where: str) -> _T:
    """Convert plain values to a struct. Raise Problem 422 with the path of the field that does not fit.

    `where` is `body` or `query`. The values of a query are texts, so they are converted to numbers.
    """
    try:
        return msgspec.convert(value, kind, strict=where != "query")
    except BAD_INPUT as error:
        reason, path = _misfit(error)
        if _SOME_KEY in path:
            path = _with_keys(value, kind, path)
        if _is_whole_number(value, path):
            try:
                integers = _with_integers(value)
            except RecursionError:
                raise Problem(422, f"{where}: its lists and dictionaries are nested too deep") from None
            return converted(integers, kind, where)
        if allowed := _allowed(kind, [*path, *_MISSING.findall(reason)]):
            reason += f": use one of {', '.join(map(str, allowed))}"
        loc = [where, *path]
        shown = ".".join(map(str, loc))
        raise Problem(422, f"{shown}: {reason}", [FieldProblem(loc=loc, msg=reason)]) from None


def _is_whole_number(value: Any, path: _Path) -> bool:
    """Check that a misfit is a number such as 3.0, which is an integer in JSON."""
    try:
        misfit = _at(value, path)
    except (LookupError, TypeError):  # a field that is missing, or a key of a map that is not a text
        return False
    return isinstance(misfit, float) and misfit.is_integer() and abs(misfit) < _INT64


def _with_integers(value: Any) -> Any:
    """Return a copy in which all whole numbers are integers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _INT64:
        return int(value)
    if isinstance(value, dict):
        return {key: _with_integers(inner) for key, inner in value.items()}
    return [_with_integers(inner) for inner in value] if isinstance(value, list) else value


def _misfit(error: Exception) -> tuple[str, _Path]:
    """Return the reason and the path of a field that does not fit."""
    text = str(error)
    match = _PATH.search(text)
    if match is None:
        return text, []
    path: _Path = [
        name or (int(index) if index.isdecimal() else index) for name, index in _PATH_PART.findall(match[2])
    ]
    return f"a key of the map: {text[: match.start()]}" if match[1] else text[: match.start()], path


def _allowed(kind: type[Struct], path: _Path) -> list[object]:
    """Return the values that a field may have, if there is a list of them: types of an object, or constants."""
    types: list[inspect.Type] = [inspect.type_info(kind)]
    for part in path:
        types = [inner for outer in types for inner in _inner(outer, part)]
    return [value for info in types if isinstance(info, inspect.LiteralType) for value in info.values]


def _inner(info: inspect.Type, part: str | int) -> Iterator[inspect.Type]:
    """Yield the types that a part of the path may have."""
    if isinstance(info, inspect.UnionType):
        for alternative in info.types:
            yield from _inner(alternative, part)
    elif isinstance(info, inspect.StructType):
        if part == info.tag_field:
            yield inspect.LiteralType((info.tag,))
        yield from (field.type for field in info.fields if field.encode_name == part)
    elif isinstance(info, inspect.ListType):
        yield info.item_type
    elif isinstance(info, inspect.DictType):
        yield info.value_type


def _with_keys(value: Any, kind: type[Struct], path: _Path) -> _Path:
    """Return the path with the keys of maps, found by converting ever smaller parts of these maps."""
    named = list(path)
    for position, part in enumerate(named):
        if part != _SOME_KEY:
            continue
        entries = list(_at(value, named[:position]).items())
        while len(entries) > 1:
            half = entries[: len(entries) // 2]
            entries = half if _fails(value, kind, named[:position], dict(half)) else entries[len(half) :]
        named[position] = str(entries[0][0])
    return named


def _at(value: Any, path: _Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _fails(value: Any, kind: type[Struct], path: _Path, entries: dict[Any, Any]) -> bool:
    """Check that the value still does not fit if the map at a path has only these entries."""
    try:
        msgspec.convert(_replaced(value, path, entries), kind)
    except BAD_INPUT:
        return True
    return False


def _replaced(value: Any, path: _Path, entries: dict[Any, Any]) -> Any:
    """Return a copy with other entries at a path. Of lists on the way, only the items of the path are kept."""
    if not path:
        return entries
    inner = _replaced(value[path[0]], path[1:], entries)
    return [inner] if isinstance(value, list) else {**value, path[0]: inner}
