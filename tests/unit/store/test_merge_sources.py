"""Tests of writing `sources.json` and reading it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.merge_sources import SOURCES, read_sources, write_sources
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.sources import SourceSeries, SourceStat

KNOWN = [
    SourceStat(
        run_id="a", name="job", lost=2, series=[SourceSeries(name="s", p99=1.5, p99_to_others=2.0, odd=True)]
    ),
    SourceStat(run_id="b", name="job"),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Sources read back in order and in full."""
    write_sources(RunDirectory(tmp_path), KNOWN)
    assert read_sources(RunDirectory(tmp_path)) == KNOWN
    assert (tmp_path / SOURCES).read_bytes().startswith(b'{\n  "schema_version": 1')


def test_a_run_that_was_not_merged_has_none(tmp_path: Path) -> None:
    """A run without `sources.json` has no sources."""
    assert read_sources(RunDirectory(tmp_path)) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is damaged"),
        (b'{"sources":[{"run_id":1}]}', "is damaged"),
        (b'{"schema_version":99}', "schema version 99"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    """A merged run that looked like one run would be a lie."""
    (tmp_path / SOURCES).write_bytes(content)
    with pytest.raises(RunDirectoryError, match=words):
        read_sources(RunDirectory(tmp_path))


def test_the_disk_may_refuse(tmp_path: Path) -> None:
    """Both ways, in words."""
    with pytest.raises(RunDirectoryError, match=r"can't write .*: No such file"):
        write_sources(RunDirectory(tmp_path / "gone"), KNOWN)
    (tmp_path / SOURCES).mkdir()
    with pytest.raises(RunDirectoryError, match=r"can't read .*: Is a directory"):
        read_sources(RunDirectory(tmp_path))
