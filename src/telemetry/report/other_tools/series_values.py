"""Values of the series of an imported run, exactly and in order, from its journal. Blocks on the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from telemetry.errors import RunDirectoryError
from telemetry.report.other_tools.answers import Numbers
from telemetry.store.journal import BATCH, CHECKPOINT, JournalReader
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import rows
from telemetry.wire.codec import Malformed, decode_batch, decode_record
from telemetry.wire.events import Define
from telemetry.wire.snapshot import MetricsSnapshot

_ROW: Final = np.dtype([("", "u1"), ("id", ">f8"), ("", "u1"), ("time", ">u8"), ("", "u1"), ("value", ">f8")])
_COLUMNS: Final = 3
_Identity = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class SeriesValues:
    """All values of a series."""

    name: str
    labels: Mapping[str, str]
    values: Numbers


def series_values(snapshot: MetricsSnapshot, directory: RunDirectory) -> list[SeriesValues]:
    """Return the series of a run of one process. A series whose values are not all in the journal is left out."""
    try:
        by_identity = _journaled(directory)
    except (RunDirectoryError, Malformed):
        return []
    series = []
    for stat in snapshot.series:
        values = by_identity.get(_identity(stat.name, stat.labels))
        if values is not None and values.size == stat.count:
            series.append(SeriesValues(stat.name, stat.labels, values))
    return series


def _journaled(directory: RunDirectory) -> dict[_Identity, Numbers]:
    identities: dict[int, _Identity] = {}
    ids, values = [np.zeros(0)], [np.zeros(0)]
    for frame in JournalReader(directory.journal).frames(unread={CHECKPOINT}):
        if frame.kind != BATCH:
            continue
        batch = decode_batch(bytes(frame.data))
        for record in map(decode_record, batch.records):
            if isinstance(record, Define) and record.kind == "series":
                identities[record.id] = _identity(record.name, record.labels)
        own_ids, own_values = _columns(batch.rows)
        ids.append(own_ids)
        values.append(own_values)
    all_ids, all_values = np.concatenate(ids), np.concatenate(values)
    order = np.argsort(all_ids, kind="stable")
    starts = np.searchsorted(all_ids[order], list(identities), side="left")
    ends = np.searchsorted(all_ids[order], list(identities), side="right")
    return {
        identity: all_values[order[start:end]]
        for identity, start, end in zip(identities.values(), starts, ends, strict=True)
    }


def _columns(array: rows.RowArray) -> Sequence[Numbers]:
    """Return ids and values."""
    if array.body is None:
        loose = np.array(rows.loose(array), np.float64).reshape(-1, _COLUMNS)
        return loose[:, 0], loose[:, 2]
    view = np.frombuffer(array.body, _ROW)
    return view["id"].astype(np.float64), view["value"].astype(np.float64)


def _identity(name: str, labels: Mapping[str, str]) -> _Identity:
    return name, frozenset(labels.items())
