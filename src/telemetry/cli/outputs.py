"""Destinations and formats of a result: `--format`, `-o FILE`, several of both, or `-o DIR/`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from telemetry.cli import console
from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.report import TABLE, format_of_suffix

FORMATS: Final = tuple(TABLE)


class _Html(str):
    """A file of `--html`: a page, whatever its suffix."""


class Output(NamedTuple):
    form: str
    path: Path | None
    """The file; None means stdout."""
    folder: bool = False
    """True if the user named the folder, so that more files may be written beside this one."""


def add_output_arguments(
    parser: argparse.ArgumentParser, choices: Sequence[str] = FORMATS, stem: str = "report"
) -> None:
    """Add the options for `outputs`: its arguments `formats` and `files`."""
    parser.add_argument(
        "--format",
        dest="formats",
        action="append",
        default=[],
        choices=choices,
        help="output format (default: from the suffix of FILE, else text); repeat it for several FILEs",
    )
    parser.add_argument(
        "--json", dest="formats", action="append_const", const="json", help="the same as --format json"
    )
    parser.add_argument(
        "-o",
        "--output",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help=f"write to this file instead of stdout, one FILE per format; DIR/ gets {stem}.json, {stem}.md, …",
    )
    if "html" in choices:
        parser.add_argument(
            "--html",
            dest="files",
            type=_Html,
            action="append",
            metavar="FILE",
            help="write a page to this file: the same as --format html -o FILE",
        )


def outputs(
    forms: Sequence[str], files: Sequence[str], choices: Sequence[str] = FORMATS, stem: str = "report"
) -> list[Output]:
    """Return the requested outputs, in order.

    Without files, one format goes to stdout. Each file has a format of its own, given by `--format` or by its
    suffix. A single folder (it exists, or its name ends with a slash) takes all formats, as files named `stem` plus
    suffix. Raises UsageError.
    """
    if not files:
        if len(forms) > 1:
            raise UsageError(
                "several formats need several files", hint="add one -o FILE per format, or a single -o DIR/"
            )
        return [Output(forms[0] if forms else "text", None)]
    folders = [file for file in files if file.endswith(os.sep) or Path(file).is_dir()]
    if folders:
        if len(files) > 1:
            raise UsageError(
                f"{folders[0]} is a folder and can't be combined with files",
                hint="give only the folder, or only files",
            )
        if not forms:
            hint = "--format html --format json"
            raise UsageError("give the formats to write to a folder", hint=hint)
        return [Output(form, Path(folders[0]) / f"{stem}{TABLE[form].suffixes[0]}", True) for form in forms]
    pages = [file for file in files if isinstance(file, _Html)]
    if forms and len(forms) != len(files) - len(pages):
        raise UsageError(
            f"got {number_of(len(forms), 'format')} but {number_of(len(files) - len(pages), 'file')}",
            hint="give one --format per file, or remove --format: the suffixes select the formats",
        )
    given = iter(forms)
    return [
        Output("html" if isinstance(file, _Html) else next(given, "") or _form_of(file, choices), Path(file))
        for file in files
    ]


def say_wrote(path: str | Path, more: str = "") -> None:
    """Say that a command has written a file or a folder for the user. `more` is what it holds."""
    console.say(f"wrote {path}{f': {more}' if more else ''}")


def write(text: str, path: Path | None) -> None:
    """Write text to stdout, or to a file atomically, and say so. Raises RunDirectoryError."""
    if path is None:
        console.write(text)
    else:
        write_file(text, path)
        say_wrote(path)


def write_file(text: str, path: Path, *, durable: bool = True) -> None:
    """Write text to a file atomically. `durable` works as in `write_atomic`. Raises RunDirectoryError."""
    from telemetry.store.atomic import write_atomic

    try:
        write_atomic(path, text.encode(), durable=durable)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {error.strerror}") from error


def make_folders(wanted: Iterable[Output]) -> None:
    """Create the missing folders that the user named. Raises RunDirectoryError."""
    for output in wanted:
        if output.folder and output.path is not None:
            make_folder(output.path.parent)


def make_folder(path: Path) -> None:
    """Create a folder and its parents. Raises RunDirectoryError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(f"can't create {path}: {error.strerror}") from error


def write_all(texts: Iterable[tuple[str, str]], folder: Path) -> None:
    """Write named files into a folder, and say so.

    A new folder appears with all files at once; in an existing one, each file does.

    Raises RunDirectoryError.
    """
    from telemetry.store.atomic import write_folder

    files = list(texts)
    if folder.exists():
        for name, text in files:
            write_file(text, folder / name, durable=False)
    else:
        make_folder(folder.parent)
        try:
            write_folder(folder, ((name, text.encode()) for name, text in files))
        except OSError as error:
            raise RunDirectoryError(f"can't create {folder}: {error.strerror}") from error
    say_wrote(folder, number_of(len(files), "file"))


def _form_of(file: str | Path, forms: Sequence[str]) -> str:
    """Return the format that a file's suffix stands for, text without a suffix.

    Raises UsageError if `forms` lacks it.
    """
    form = format_of_suffix(file, forms)
    if form is None:
        suffixes = ", ".join(TABLE[name].suffixes[0] for name in forms)
        raise UsageError(
            f"the suffix {Path(file).suffix} of {file} does not select a format",
            hint=f"use one of {suffixes}, or add --format",
        )
    return form
