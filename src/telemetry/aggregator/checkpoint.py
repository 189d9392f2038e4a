"""Checkpoints: the state that numbers depend on, declared once by each class, as msgpack and back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeVar, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from telemetry.aggregator.config import AggregatorConfig
from telemetry.errors import UsageError
from telemetry.wire.codec import Malformed
from telemetry.wire.drop_reasons import Reason


class _Form:
    """Base of types that are not plain values."""


class ArrayColumn(_Form):
    """A one-dimensional array, of which the first `len(owner)` entries are in use."""

    def __init__(self, scalar: type[np.generic]) -> None:
        self.dtype = np.dtype(scalar)


PART: Final = _Form()
PARTS: Final = _Form()


class Stateful(Protocol):
    STATE: ClassVar[Mapping[str, Any]]
    DERIVED: ClassVar[tuple[str, ...]]


def encode(document: object, head: bytes = b"") -> bytearray:
    """Return the result of `save`, or a struct that holds it, as msgpack after `head`."""
    buffer = bytearray(head)
    _ENCODER.encode_into(document, buffer, -1)
    return buffer


def save(owner: Stateful) -> dict[str, object]:
    """Return the state as plain values, structs and views of arrays. Encode it before the owner changes."""
    return {
        name: _saved(owner, kind, getattr(owner, name)) if isinstance(kind, _Form) else getattr(owner, name)
        for name, kind in owner.STATE.items()
    }


def load(owner: Stateful, data: object) -> None:
    """Fill a new object. Raise ValueError for data that can't have been saved."""
    kept = owner.STATE.keys()
    if not isinstance(data, dict) or not kept - getattr(owner, "ADDED", ()) <= data.keys() <= kept:
        raise ValueError(f"this is no {type(owner).__name__}")
    for name, kind in owner.STATE.items():
        if name in data:
            _load_attribute(owner, name, kind, data[name])
    restored = getattr(owner, "restored", None)
    if restored is not None:
        restored()


def _saved(owner: Stateful, kind: _Form, value: Any) -> object:
    if kind is PART:
        return save(value)
    if kind is PARTS:
        return {key: save(part) for key, part in value.items()} if isinstance(value, dict) else [*map(save, value)]
    return value[: len(owner)]  # type: ignore[arg-type]


def _load_attribute(owner: Stateful, name: str, kind: Any, data: Any) -> None:
    fresh = getattr(owner, name)
    if kind is PART:
        load(fresh, data)
    elif kind is PARTS:
        _load_parts(name, fresh, data)
    elif isinstance(kind, ArrayColumn):
        rows = len(owner)  # type: ignore[arg-type]
        fresh[:rows] = _many(_array(kind.dtype, data), rows)
    else:
        setattr(owner, name, _like(fresh, _convert(data, kind)))


def _load_parts(name: str, fresh: Any, data: Any) -> None:
    """Load parts: those of a map by key, those of a list by position."""
    alike = isinstance(data, type(fresh)) and len(fresh) == len(data)
    if not alike or (isinstance(fresh, dict) and fresh.keys() != data.keys()):
        raise ValueError(f"{name}: not the {len(fresh)} there should be")
    for key in fresh if isinstance(fresh, dict) else range(len(fresh)):
        load(fresh[key], data[key])


def _like(fresh: object, value: Any) -> Any:
    """Return the value in the container type that the constructor chose."""
    if isinstance(fresh, deque):
        return deque(value, fresh.maxlen)
    return Counter(value) if isinstance(fresh, Counter) else value


def _convert(data: object, kind: Any) -> Any:
    return msgspec.convert(data, kind, dec_hook=_decode_array)  # its ValidationError is a ValueError


# --- arrays --------------------------------------------------------------------------------------
# An array is a pair of dtype and bytes. Wide unsigned numbers, which are mostly small counts, are a triple: dtype,
# one byte for each number, and the numbers that don't fit into a byte.

_ESCAPE: Final = 255


def _encode_other(value: object) -> object:
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, deque):
        return list(value)
    raise NotImplementedError(f"no state: {value!r}")


def _encode_array(array: NDArray[Any]) -> tuple[object, ...]:
    if array.dtype.kind == "u" and array.itemsize > 1:
        small = np.minimum(array, _ESCAPE, out=np.empty(len(array), np.uint8), casting="unsafe")
        return array.dtype.str, small.data, array[small == _ESCAPE].tobytes()
    return array.dtype.str, np.ascontiguousarray(array).view(np.uint8).data


def _decode_array(kind: Any, data: Any) -> NDArray[Any]:
    """Decode an array for `NDArray[scalar]`, also for an abstract scalar."""
    (scalar,) = get_args(get_args(kind)[1])
    return _array(get_origin(scalar) or scalar, data)


def _array(scalar: Any, data: Any) -> NDArray[Any]:
    """Return a copy of an array. Raise ValueError for invalid data, including incomplete numbers."""
    match data:
        case [str(code), bytes(content)] if code in _CODES and np.issubdtype(_CODES[code], scalar):
            array = np.frombuffer(content, _CODES[code]).copy()
            # bytes other than 0 and 1 are invalid as booleans
            return array.view(np.uint8) != 0 if array.dtype == np.bool_ else array
        case [str(code), bytes(content), bytes(wide)] if code in _CODES and np.issubdtype(_CODES[code], scalar):
            small = np.frombuffer(content, np.uint8)
            array = small.astype(_CODES[code])
            escaped = np.flatnonzero(small == _ESCAPE)
            array[escaped] = _many(np.frombuffer(wide, _CODES[code]), escaped.size)
            return array
        case _:
            raise ValueError("this is no array")


def _many(array: NDArray[Any], entries: int) -> NDArray[Any]:
    if len(array) != entries:
        raise ValueError(f"{len(array)} entries, not {entries}")
    return array


_SCALARS: Final = (
    *(np.bool_, np.int32, np.int64, np.intp, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float64, np.complex128),
)
_CODES: Final = {np.dtype(scalar).str: np.dtype(scalar) for scalar in _SCALARS}
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_encode_other)


_Owner = TypeVar("_Owner", bound=Stateful)
_FORMAT: Final = 5
"""Format of new checkpoints."""
_FORMATS: Final = (3, 4, _FORMAT)
"""Formats that can be read.

Format 3 has no folded producers, and its times are wall clock times. Up to format 4 there are no reported axes.
"""


class _Checkpoint(Struct):
    format: int
    config: AggregatorConfig
    state: Any


_CHECKPOINT: Final = msgspec.msgpack.Decoder(_Checkpoint)
_INVALID: Final = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError, UsageError)


def encode_checkpoint(owner: Stateful, config: AggregatorConfig, head: bytes) -> bytearray:
    """Return the state of an owner after `head`."""
    config = msgspec.convert(msgspec.to_builtins(config), AggregatorConfig)  # 10 becomes 10.0
    return encode(_Checkpoint(_FORMAT, config, save(owner)), head)


def restore_checkpoint(make: Callable[[AggregatorConfig], _Owner], data: bytes | memoryview) -> _Owner:
    """Return a new owner, made by `make`, with the state of a checkpoint. Raise Malformed for invalid bytes."""
    try:
        checkpoint = _CHECKPOINT.decode(data)
        if checkpoint.format not in _FORMATS:
            raise Malformed(Reason.WRONG_VERSION, f"a checkpoint of format {checkpoint.format}, not {_FORMAT}")
        owner = make(checkpoint.config)
        load(owner, checkpoint.state)
    except _INVALID as error:
        raise Malformed(Reason.FRAME_UNREADABLE, f"invalid checkpoint: {error}") from None
    return owner
