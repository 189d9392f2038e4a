"""Checkpoints: all state that numbers depend on, declared once by each class, as msgpack and back.

    STATE      attribute or property → its type: `PART` (an object with state of its own), `PARTS` (a list or map of
               such objects), a `ArrayColumn`, or the type of a plain value. `__init__` creates all of them.
    ADDED      optional: names in STATE that the previous format lacks. They stay as `__init__` made them.
    DERIVED    the other attributes: arguments of `__init__`, scratch memory, and derived values.
    restored   an optional method, called once the state is loaded: computes derived values. Raises ValueError for
               a state that can't have been saved.

`load` fills an object fresh from its constructor, in the order of STATE. Objects that a property's setter makes,
such as rows for instruments, exist for the attributes after it. Bytes of any origin may be loaded: none of them are
executed, and no loaded object is larger than in an aggregator that reached its state by itself. msgspec checks
plain values against their types.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray


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
