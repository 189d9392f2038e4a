"""One changed byte anywhere in the files of a finished run: all readers tell the same as before, or they name the
file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from telemetry.backends.sources.disk import DiskSource
from telemetry.backends.sources.source import Position
from telemetry.errors import TelemetryError
from telemetry.history import TimeRangeChoice, open_run
from telemetry.store.run_directory import RunDirectory
from telemetry.testing.sample import record_run
from telemetry.wire.report import Report

_OF_RUN = ("final_snapshot.json", "manifest.json")
_FILES = ("keys.jsonl", "1s", "10s", "60s", "records.jsonl", *_OF_RUN)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("sample"), steps=40).path


def report(run: Path) -> tuple[Any, str]:
    return numbers(open_run(run).report(2.0))


def part(run: Path) -> tuple[Any, str]:
    return numbers(open_run(run).time_range(TimeRangeChoice(from_s=3.0, to_s=9.0)))


def numbers(found: Report) -> tuple[Any, str]:
    """Findings are what a report has to say about its numbers."""
    document = msgspec.to_builtins(found)
    return document, "".join(document.pop("findings"))


def export(run: Path) -> tuple[Any, str]:
    """All items that a backend gets, and what their writer is told."""
    source = DiskSource(RunDirectory.open(run), Position(), every_s=2.0)
    items = []
    while not source.over:
        items += [repr(read.item) for read in source.read(100, 0.0)]
    words = "".join(source.notes())
    source.close()
    return items, words


def told(reader: Callable[[Path], tuple[Any, str]], run: Path) -> tuple[Any, str]:
    try:
        return reader(run)
    except TelemetryError as error:
        return None, str(error)


READERS: dict[str, Callable[[Path], tuple[Any, str]]] = {"report": report, "part": part, "export": export}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", _FILES)
@settings(max_examples=max(10, settings().max_examples // 4))
@example(at=1 - 2**-30, bits=1)  # the end of the last line
@given(at=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_a_changed_byte_changes_no_number_in_silence(
    sample: Path, reader: str, name: str, at: float, bits: int
) -> None:
    """A changed byte in any file of a run changes no number in silence.

    A reader gives the same numbers, or names the file.
    """
    with TemporaryDirectory(prefix="tm") as folder:
        run = Path(folder) / sample.name
        shutil.copytree(sample, run)
        expected, _ = told(READERS[reader], run)
        (path,) = (path for path in run.rglob("*") if path.is_file() and path.name.startswith(name))
        data = bytearray(path.read_bytes())
        data[int(at * len(data))] ^= bits
        path.write_bytes(data)
        found, words = told(READERS[reader], run)
    assert found == expected or path.name in words, (path.name, int(at * len(data)), words)
