"""Values of many ranks in one step, packed for a line of the record log.

    "packed_ranks": {"straggler/work_s": {"ranks": [[0, 1024]], "type": "f4", "values": "eJxF…"}}

`ranks` has ranges of ranks: the first rank and how many follow each other. `values` are the little-endian numbers
in their order: first the lowest byte of all, then the next byte, and so on; deflated by zlib, in base64. The bytes
of like numbers are alike, so a number takes about four bytes.
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import numpy as np
from msgspec import Meta, Struct, convert

from telemetry import limits
from telemetry.wire.events import Rank
from telemetry.wire.ranked_values import Ranked, can_be_packed, width_of

_LEVEL: Final = 1


class PackedRanks(Struct, frozen=True):
    """Values of one name."""

    ranks: list[tuple[int, Annotated[int, Meta(ge=1, le=limits.STEP_RANKS)]]]
    type: Literal["f4", "f8"]
    values: str

    def unpacked(self) -> list[tuple[int, float]]:
        """Return the values with their ranks. Raises ValueError for damaged ones."""
        if sum(count for _, count in self.ranks) > limits.STEP_RANKS:
            raise ValueError("too many ranks in one step")
        numbers = [rank for first, count in self.ranks for rank in range(first, first + count)]
        width = int(self.type[1])
        inflate = zlib.decompressobj()
        try:
            content = inflate.decompress(binascii.a2b_base64(self.values), width * len(numbers) + 1)
        except (binascii.Error, zlib.error) as error:
            raise ValueError(f"values of ranks: {error}") from error
        if len(content) != width * len(numbers):
            raise ValueError("another number of values than of ranks")
        values = np.frombuffer(content, np.uint8).reshape(width, -1).T.copy().view(f"<{self.type}").ravel()
        if not np.isfinite(values).all():
            raise ValueError("a value of a rank is not finite")
        return [*zip(numbers, values.tolist(), strict=True)]


class RankedStep(Struct, tag_field="type", tag="step", frozen=True):
    """A closed step of a line, with no more than its ranked values."""

    axis: str
    step: int
    ranks: dict[str, list[tuple[Rank, float]]] = {}
    packed_ranks: dict[str, PackedRanks] = {}
    revision: int = 0

    def ranked(self) -> dict[str, Ranked]:
        """Return the ranked values. Raises ValueError for damaged ones."""
        return {**self.ranks, **{name: part.unpacked() for name, part in self.packed_ranks.items()}}


def packed(ranks: Mapping[str, Ranked]) -> dict[str, dict[str, Any]]:
    """Return the fields of a line for ranked values: `ranks`, and `packed_ranks` for those of many ranks."""
    by_name = {name: _packed(name, values) for name, values in ranks.items()}
    small = {name: part for name, part in by_name.items() if part is not None}
    fields: dict[str, dict[str, Any]] = {"ranks": {name: of for name, of in ranks.items() if name not in small}}
    return fields | {"packed_ranks": small} if small else fields


def unpacked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ranked values of a line. Raises ValueError for damaged ones."""
    parts = convert(fields["packed_ranks"], dict[str, PackedRanks])
    return {**fields.get("ranks", {}), **{name: part.unpacked() for name, part in parts.items()}}


def _packed(name: str, ranked: Ranked) -> PackedRanks | None:
    """Return the values packed, or None if they can't be."""
    if not can_be_packed(name, ranked):
        return None
    code: Literal["f4", "f8"] = "f4" if width_of(name) == 4 else "f8"
    values = np.array([value for _, value in ranked], f"<{code}")
    numbers = np.array([rank for rank, _ in ranked])
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 2) != 1)
    counts = np.diff(starts, append=numbers.size)
    content = values.view(np.uint8).reshape(numbers.size, -1).T.tobytes()
    return PackedRanks(
        ranks=[*zip(numbers[starts].tolist(), counts.tolist(), strict=True)],
        type=code,
        values=binascii.b2a_base64(zlib.compress(content, _LEVEL), newline=False).decode(),
    )
