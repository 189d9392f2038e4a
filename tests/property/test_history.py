"""A history that was killed at any byte, and resumed, is the history of a writer that was not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.store.history import HistoryReader, HistoryWriter
from telemetry.store.intervals.levels import segments
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

ROLLS = st.lists(st.integers(0, 260), min_size=1, max_size=260, unique=True).map(sorted) | st.integers(1, 260).map(
    lambda count: list(range(count))
)
RETENTION = {1: 60, 10: 120, 60: None}
KEEP_ALL = {1: None, 10: None, 60: None}


class Killed(BaseException):
    """A stand-in for SIGKILL that no code catches."""


@contextmanager
def killed_after(count: int) -> Iterator[None]:
    """Lets so many bytes through to files; the write that goes beyond is cut there, its caller ends, and what is
    open is closed."""
    left, real, real_open, real_close = count, os.writev, os.open, os.close
    opened: set[int] = set()

    def open_noted(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        fd = real_open(path, flags, *rest, **named)
        if flags & os.O_ACCMODE != os.O_RDONLY:  # readers close theirs
            opened.add(fd)
        return fd

    def close_noted(fd: int) -> None:
        real_close(fd)
        opened.discard(fd)

    def writev(fd: int, buffers: Sequence[bytes]) -> int:
        nonlocal left
        data = b"".join(buffers)
        if len(data) > left:
            real(fd, [data[:left]])
            left = 0
            raise Killed
        left -= len(data)
        return real(fd, [data])

    with patch.multiple(os, writev=writev, open=open_noted, close=close_noted), suppress(Killed):
        yield
    for fd in opened:
        os.close(fd)


def keys(at: int) -> list[SeriesKey]:
    return [SeriesKey(index=index, name=f"s{index}", kind="series") for index in range(at // 50 + 1)]


def second(at: int) -> Interval:
    """Two series whose sums depend on the order in which they are added up."""
    index = np.array([0, 1], "<u4").tobytes()
    one = np.array([1, 1], "<u4").tobytes()
    value = np.array([0.1 * at, 1e17 / (at + 1)], "<f8").tobytes()
    slots = np.array([at, at % 7], "<u4").tobytes()
    series = SeriesColumns(index, np.array([1, 1], "<u8").tobytes(), value, value, value, one, slots, one)
    return Interval(at * 10, at * 10 + 10, series, ValueColumns(index, value), ValueColumns(index, value))


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def write(directory: Path, rolls: Sequence[int], retention: dict[int, float | None]) -> tuple[int, int]:
    """One life of a writer; returns the bytes it wrote before `close` and in it."""
    writer = HistoryWriter(directory, retention, resume=True)
    for at in rolls:
        writer.append(second(at), keys(at), number=at)
    before_close = writer.bytes_written
    writer.close()
    assert writer.failed == ""
    return before_close, writer.bytes_written - before_close


@given(ROLLS, st.data())
def test_killed_at_any_byte(rolls: list[int], data: st.DataObject) -> None:
    """Lives that end early, by a kill or a close, each beginning again from roll 0: the same files to the byte."""
    with TemporaryDirectory(prefix="tm") as name:
        whole, parts = Path(name, "whole"), Path(name, "parts")
        write(whole, rolls, RETENTION)
        for life in range(data.draw(st.integers(1, 2))):
            some = rolls[: data.draw(st.integers(0, len(rolls)))]
            running, closing = write(Path(name, f"dry {life}"), some, RETENTION)
            moments = st.integers(0, running) | st.integers(running, running + closing)
            with killed_after(data.draw(moments)):
                write(parts, some, RETENTION)
        write(parts, rolls, RETENTION)
        assert files(parts) == files(whole)


@given(ROLLS, st.data())
def test_any_end_of_any_file_may_be_lost(rolls: list[int], data: st.DataObject) -> None:
    """A power cut takes what was not synced, of each file another amount: filled up, the files are the same."""
    with TemporaryDirectory(prefix="tm") as name:
        directory = Path(name)
        write(directory, rolls, KEEP_ALL)
        expected = files(directory)
        for path in (directory / "keys.jsonl", *(item.path for item in segments(directory))):
            size = path.stat().st_size
            os.truncate(path, data.draw(st.just(size) | st.integers(0, size), label=path.name))
            os.truncate(path, path.stat().st_size + data.draw(st.sampled_from([0, 0, 30])))
        write(directory, rolls, KEEP_ALL)
        assert files(directory) == expected
        assert HistoryReader(directory).keys() == keys(rolls[-1])
