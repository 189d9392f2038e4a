"""The last lines of a command's output, whatever its writer does to the file."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry.limits import KIB
from telemetry.store.output_log import OLDER, OUTPUT, OutputLog
from telemetry.tui.feed.local_files import LINES, OutputTail
from telemetry.tui.feed.news import CommandOutput


class Writer:
    """A writer of the output of a run's command."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / OUTPUT

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def rotate(self) -> None:
        os.replace(self.path, self.path.with_name(OLDER))
        self.path.touch()


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


@pytest.fixture
def tail(tmp_path: Path) -> Any:
    made = OutputTail(tmp_path)
    yield made
    made.close()


def lines(tail: OutputTail) -> list[str]:
    output = tail.look()
    assert output is not None
    return list(output.lines)


def test_no_file_is_no_news(tail: OutputTail, writer: Writer) -> None:
    """A run that wraps no command has none; it may also come later."""
    assert tail.look() is None
    writer.write(b"hello\n")
    assert lines(tail) == ["hello"]


def test_only_what_is_new_is_news(tail: OutputTail, writer: Writer) -> None:
    """Lines add up; a file that did not change is not read."""
    writer.write(b"one\ntwo\n")
    assert lines(tail) == ["one", "two"]
    assert tail.look() is None
    writer.write(b"three\n")
    assert lines(tail) == ["one", "two", "three"]


def test_a_line_that_is_not_finished_is_shown_as_far_as_it_is(tail: OutputTail, writer: Writer) -> None:
    """An unfinished line is shown, and is one line in the end even if a character came in two halves."""
    writer.write("50 µ".encode()[:-1])
    assert lines(tail) == ["50 \ufffd"]
    writer.write("µ".encode()[1:] + b"s\nnext\n")
    assert lines(tail) == ["50 µs", "next"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b" 10%\r 20%\r 30%\n", [" 30%"]),
        (b" 10%\r 20%\r", [" 20%"]),
        (b"dos\r\nunix\n", ["dos", "unix"]),
        (b"\n\nspace\n", ["", "", "space"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
        (b"\x1b[31mred\x1b[0m\n", ["\x1b[31mred\x1b[0m"]),
    ],
)
def test_lines_are_what_a_terminal_shows(
    tail: OutputTail, writer: Writer, written: bytes, shown: list[str]
) -> None:
    """The last of overwritten text is shown. Colours and bytes that are no text are left to the viewer."""
    writer.write(written)
    assert lines(tail) == shown


def test_only_the_last_lines_are_kept(tail: OutputTail, writer: Writer) -> None:
    """However many there are, and however long one is."""
    writer.write(b"".join(b"%d\n" % number for number in range(2 * LINES)))
    assert lines(tail) == [str(number) for number in range(LINES, 2 * LINES)]
    writer.write(b"x" * 100_000 + b"\n")
    assert all(len(line) < 10_000 for line in lines(tail))


def test_of_a_flood_only_the_end_is_read(tail: OutputTail, writer: Writer) -> None:
    """Only the end of a flood is read, in whole lines."""
    writer.write(b"before\n")
    tail.look()
    writer.write(b"".join(b"%07d %s\n" % (number, b"y" * 100) for number in range(20_000)))
    found = lines(tail)
    assert len(found) == LINES
    assert found[-1].startswith("0019999")
    assert all(len(line) == 108 for line in found)


def test_a_few_lines_take_little_memory(tail: OutputTail, writer: Writer) -> None:
    """A few lines take little memory. A buffer for a flood, asked for and shrunk, would leave holes as large."""
    writer.write(b"one\n")
    tail.look()
    writer.write(b"two\n")
    tracemalloc.start()
    try:
        assert lines(tail) == ["one", "two"]
        assert tracemalloc.get_traced_memory()[1] < 64 * KIB
    finally:
        tracemalloc.stop()


def test_rotation_loses_no_line(tail: OutputTail, writer: Writer) -> None:
    """The rest of the old file comes first after a rotation, also of a line that goes on in the new."""
    writer.write(b"one\n")
    assert lines(tail) == ["one"]
    writer.write(b"two\nthr")
    writer.rotate()
    writer.write(b"ee\nfour\n")
    assert lines(tail) == ["one", "two", "three", "four"]


def test_what_a_run_writes_is_what_is_read(tail: OutputTail, tmp_path: Path) -> None:
    """The tail reads what the log's own writer writes, over many of its files."""
    log = OutputLog(tmp_path, file_bytes=100)
    for number in range(200):
        log.append(b"line %d\n" % number)
        assert lines(tail)[-1] == f"line {number}"
    log.close()


def test_the_file_before_is_seen_by_who_comes_after_rotation(tail: OutputTail, writer: Writer) -> None:
    """A viewer that attaches has something to show."""
    writer.write(b"one\n")
    writer.rotate()
    writer.write(b"two\n")
    assert lines(tail) == ["one", "two"]


def test_a_file_that_was_cut_short_is_another_one(tail: OutputTail, writer: Writer) -> None:
    """A file that was cut short is another one, whose lines replace those before."""
    writer.write(b"one\ntwo\n")
    tail.look()
    os.truncate(writer.path, 0)
    writer.write(b"new\n")
    assert lines(tail) == ["new"]


def test_what_can_not_be_read_is_no_news(tail: OutputTail, tmp_path: Path) -> None:
    """Nor does it end the thread."""
    (tmp_path / OUTPUT).mkdir()
    assert tail.look() is None


def test_growth_is_told(
    tail: OutputTail,
    writer: Writer,
    told: Any,
    wait_until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread passes on what is added to the output, and ends with `close`."""
    monkeypatch.setattr("telemetry.tui.feed.local_files._PERIOD_S", 0.01)
    tail.start(told)
    writer.write(b"one\n")
    wait_until(lambda: told.of(CommandOutput), what="the first line")
    writer.write(b"two\n")
    wait_until(lambda: told.of(CommandOutput)[-1].lines == ("one", "two"), what="the second line")
    tail.close()
    tail.close()
    assert tail._thread is not None
    assert not tail._thread.is_alive()


def test_a_log_that_can_t_be_opened_for_a_while(tmp_path: Path) -> None:
    """Is looked for again."""
    tail = OutputTail(tmp_path)
    log = tmp_path / OUTPUT
    log.write_bytes(b"before\n")
    assert tail.look() == CommandOutput(("before",))
    log.unlink()
    log.mkdir()
    assert tail.look() is None
    log.rmdir()
    log.write_bytes(b"after\n")
    assert tail.look() == CommandOutput(("before", "after"))
    tail.close()
