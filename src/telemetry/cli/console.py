"""Output of commands: results on stdout, messages on stderr, colour on terminals only."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from typing import TextIO

PIPED_WIDTH = 120
"""Columns of text for a file or a pipe: wide enough for every column of a usual table."""


def complete_streams() -> None:
    """Replace closed standard streams by the null device.

    Otherwise the next socket would get the free descriptor, and a child process would write into the socket.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # opens the lowest free descriptor: `fd`
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, mode, encoding="utf-8", closefd=False))


def tolerate_any_encoding() -> None:
    """Make both output streams write `?` for a character they can't encode, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(message: str) -> None:
    """Write one message line to stderr.

    Escapes control characters, since names and reasons in it may be untrusted.
    """
    talk(f"telemetry: {visible(message)}\n")


def alarm(message: str) -> None:
    """Write one message line to stderr, in red on a terminal: it explains an exit code that is not 0."""
    line = f"telemetry: {visible(message)}"
    talk(f"\x1b[1;31m{line}\x1b[0m\n" if color(sys.stderr) else f"{line}\n")


def visible(text: str) -> str:
    """Escape control and direction characters in text from outside; keep line breaks."""
    from telemetry.common.formatting import printable

    return "\n".join(map(printable, text.split("\n")))


def talk(text: str) -> None:
    """Write text to stderr unchanged. If the reader of stderr has gone, discard this and all later messages."""
    _write_or_discard(sys.stderr, text)


def can_ask() -> bool:
    """Return whether a person at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Ask on stderr, and return whether the answer is yes."""
    talk(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _write_or_discard(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        discard(stream)


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that flushing its buffer at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write(text: str) -> None:
    """Write a result to stdout unchanged."""
    sys.stdout.write(text)
    sys.stdout.flush()


def show(text: str) -> None:
    """Write text to stdout unchanged. If the reader of stdout has gone, discard this and all later text.

    For a command whose work goes on without a reader; others end, as `write` lets them.
    """
    _write_or_discard(sys.stdout, text)


def write_json(value: object) -> None:
    """Write a value to stdout as one strict, indented JSON document."""
    import msgspec

    from telemetry.common.formatting import printable_json

    write(printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n")


def width(stream: TextIO, environ: Mapping[str, str] = os.environ) -> int:
    """Return the columns for text on this stream: COLUMNS, else the terminal's width, else PIPED_WIDTH."""
    fallback = (PIPED_WIDTH, 24)
    if not stream.isatty():
        columns = environ.get("COLUMNS", "")
        return int(columns) if columns.isdigit() and int(columns) else PIPED_WIDTH
    return shutil.get_terminal_size(fallback).columns


def color(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to use colour.

    NO_COLOR forbids it, FORCE_COLOR forces it; else only a capable terminal gets it.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"
