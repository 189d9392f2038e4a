"""Where words go: results on stdout, talk on stderr, colour only where somebody sees it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from typing import TextIO

PIPED_WIDTH = 120
"""Columns of text that goes to a file or a pipe: wide enough for every column of a usual table."""


def complete_streams() -> None:
    """The null device takes the place of a standard stream that is closed.

    Else the next socket would get its descriptor, and a child would write into that.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free: `fd`
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, mode, encoding="utf-8", closefd=False))


def tolerate_any_encoding() -> None:
    """A stream that can't write a character writes `?` in its place instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(message: str) -> None:
    """One line of talk. Names and reasons in it may come from anybody."""
    talk(f"telemetry: {visible(message)}\n")


def visible(text: str) -> str:
    """Text from outside with control and direction characters as escapes; line breaks stay."""
    from telemetry.formatting import printable

    return "\n".join(map(printable, text.split("\n")))


def talk(text: str) -> None:
    """Talk as it is. If whoever read stderr has gone, this and all that follows goes nowhere."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """What is still buffered has nowhere to go, and must not fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write(text: str) -> None:
    """A result, as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_json(value: object) -> None:
    """One strict JSON document, indented."""
    import msgspec

    from telemetry.formatting import printable_json

    write(printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n")


def width(stream: TextIO, environ: Mapping[str, str] = os.environ) -> int:
    """Columns for text on this stream: COLUMNS, else the terminal's, else PIPED_WIDTH."""
    fallback = (PIPED_WIDTH, 24)
    if not stream.isatty():
        columns = environ.get("COLUMNS", "")
        return int(columns) if columns.isdigit() and int(columns) else PIPED_WIDTH
    return shutil.get_terminal_size(fallback).columns


def color(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: NO_COLOR forbids it, FORCE_COLOR demands it, else only a terminal that can."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"
