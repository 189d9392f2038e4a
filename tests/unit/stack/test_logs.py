"""The log of a server."""

from __future__ import annotations

from pathlib import Path

from telemetry.stack.keeper import LogFile


def test_a_log_has_two_files_at_most(tmp_path: Path) -> None:
    """The newest lines are kept."""
    log = LogFile(tmp_path / "prometheus.log", file_bytes=100)
    for number in range(50):
        log.write(f"line {number:03} \udce9")
    log.close()
    paths = sorted(tmp_path.iterdir())
    assert [path.name for path in paths] == ["prometheus.1.log", "prometheus.log"]
    assert all(path.stat().st_size <= 100 for path in paths)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    lines = [line for path in paths for line in path.read_text().splitlines()]
    assert lines == [f"line {number:03} ?" for number in range(50 - len(lines), 50)]


def test_a_log_that_cant_be_written_raises_nothing(tmp_path: Path) -> None:
    """A log that can't be written raises no error, and goes on once it can be written."""
    log = LogFile(tmp_path / "none" / "x.log")
    log.write("lost")
    (tmp_path / "none").mkdir()
    log.write("kept")
    log.close()
    assert (tmp_path / "none" / "x.log").read_text() == "kept\n"
