"""A checkpoint of an aggregator as bytes: format, config and state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.state import Stateful, encode, load, save
from telemetry.errors import UsageError
from telemetry.wire.codec import Malformed
from telemetry.wire.drop_reasons import Reason

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
