"""The history as an HdrHistogram interval log (format 1.3), for HdrHistogram tools.

    #[Series: {"tag":"latency%7Bop%3Dread%7D","name":"latency",…}]      one for each series
    Tag=latency%7Bop%3Dread%7D,<start s>,<length s>,<max in unit>,<HdrHistogram V2, compressed, base64>

Recorded values are ticks: `ticks_per_unit` of the series' unit, which the comment of the series contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import msgspec
import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import replacing
from telemetry.store.history import HistoryReader
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval

HIGHEST_TICKS: Final = (1 << 53) - 1
"""Upper end of every exported histogram: with one common range, any two histograms can be added."""

_ESCAPED: Final = str.maketrans({char: f"%{ord(char):02X}" for char in "%{},="})


def export_hlog(
    source: RunDirectory | Path, out: Path, level_s: int = 0, *, start_ns: int = 0, end_ns: int = (1 << 63) - 1
) -> int:
    """Write the history of a run, or of a history directory, to `out` atomically.

    Return the number of interval lines.

    Writes intervals that overlap `[start_ns, end_ns)`, wall clock; `level_s` as in `HistoryReader.intervals`.
    Blocks: about 0.1 ms per line. Raises RunDirectoryError.
    """
    directory = source.history if isinstance(source, RunDirectory) else source
    reader = HistoryReader(directory)
    all_keys = reader.keys()
    keys = {key.index: key for key in all_keys if key.kind == "series"}
    try:
        with replacing(out) as file:
            return _write(file, reader.intervals(start_ns, end_ns, level_s), keys)
    except OSError as error:
        raise RunDirectoryError(f"can't write {out}: {describe(error)}") from error


def series_id(name: str, labels: dict[str, str]) -> str:
    """Return `name{key=value,…}` with sorted keys; without labels the name alone.

    Distinct series have distinct ids.
    """
    pairs = ",".join(f"{k.translate(_ESCAPED)}={v.translate(_ESCAPED)}" for k, v in sorted(labels.items()))
    plain = name.translate(_ESCAPED)
    return f"{plain}{{{pairs}}}" if pairs else plain


def tag(key: SeriesKey) -> str:
    """Return the series id, with all characters that a log line can't carry percent-encoded."""
    return quote(series_id(key.name, key.labels), safe="")


def _write(file: BinaryIO, intervals: Iterator[Interval], keys: dict[int, SeriesKey]) -> int:
    first = next(intervals, None)
    base_ns = first.start_ns if first is not None else 0
    file.write(_head(base_ns, keys).encode())
    encoder = _Encoder()
    tags = {index: tag(key) for index, key in keys.items()}
    lines = 0
    for interval in chain([first] if first is not None else [], intervals):
        # The log format can't represent a clock that was set back.
        start_s = max(0, interval.start_ns - base_ns) / 1e9
        length_s = max(0, interval.end_ns - interval.start_ns) / 1e9
        for index, highest, slots, counts in _series(interval):
            if index not in keys:
                raise RunDirectoryError(f"the history does not define series {index}")
            try:
                payload = encoder.encode(keys[index].digits, slots, counts)
            except IndexError as error:
                raise RunDirectoryError(f"the history has invalid histogram slots for series {index}") from error
            file.write(f"Tag={tags[index]},{start_s:.6f},{length_s:.6f},{highest:.6f},{payload}\n".encode())
            lines += 1
    return lines


def _head(base_ns: int, keys: dict[int, SeriesKey]) -> str:
    base_s = base_ns / 1e9
    moment = datetime.fromtimestamp(base_s, UTC).isoformat(timespec="milliseconds")
    lines = [
        "#[Histogram log format version 1.3]",
        f"#[StartTime: {base_s:.6f} (seconds since epoch), {moment}]",
        f"#[BaseTime: {base_s:.6f} (seconds since epoch)]",
    ]
    for _, key in sorted(keys.items()):
        facts = {"tag": tag(key), **msgspec.to_builtins(key)}
        lines.append(f"#[Series: {msgspec.json.encode(facts).decode()}]")
    lines.append('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"')
    return "\n".join(lines) + "\n"


def _series(interval: Interval) -> Iterator[tuple[int, float, NDArray[Any], NDArray[Any]]]:
    """Yield (index, maximum, slots, counts) of each series."""
    columns = interval.series
    slots = np.frombuffer(columns.slots, "<u4")
    counts = np.frombuffer(columns.counts, "<u4")
    ends = np.cumsum(np.frombuffer(columns.occupied, "<u4"), dtype=np.int64).tolist()
    index = np.frombuffer(columns.index, "<u4").tolist()
    highest = np.frombuffer(columns.max, "<f8").tolist()
    begin = 0
    for at, end in enumerate(ends):
        yield index[at], highest[at], slots[begin:end], counts[begin:end]
        begin = end


class _Encoder:
    """An encoder of slots and counts in the format of the HdrHistogram library, with one histogram per precision.

    The library's counts index of a value does not depend on the highest value of a histogram, so slots are copied
    unchanged.
    """

    def __init__(self) -> None:
        self._histograms: dict[int, tuple[Any, NDArray[np.uint64]]] = {}

    def encode(self, digits: int, slots: NDArray[Any], counts: NDArray[Any]) -> str:
        if digits not in self._histograms:
            fresh = HdrHistogram(1, HIGHEST_TICKS, digits)
            self._histograms[digits] = fresh, np.frombuffer(fresh.counts, np.uint64)
        histogram, cells = self._histograms[digits]
        np.add.at(cells, slots, counts.astype(np.uint64))
        histogram.total_count = int(counts.sum(dtype=np.uint64))
        # The library encodes the slots up to the maximum only.
        histogram.max_value = histogram.get_value_from_index(int(slots[-1])) if len(slots) else 0
        encoded: str = histogram.encode().decode("ascii")
        cells[slots] = 0
        return encoded
