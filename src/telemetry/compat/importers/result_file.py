"""A result file or a folder of results, as importers read it. Files may be compressed by gzip."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, cast

import msgspec

from telemetry import limits
from telemetry.common.formatting import size
from telemetry.errors import UsageError

_HEAD_BYTES: Final = 64 * limits.KIB
_BUFFER_BYTES: Final = limits.MIB  # a read of 8 KiB costs as much as half of its lines
_GZIP: Final = b"\x1f\x8b"


class ResultFile:
    """A file, or a folder whose files belong together. Blocks on the disk."""

    def __init__(self, path: Path, columns: Mapping[str, str] = MappingProxyType({})) -> None:
        self.path = path
        self.columns = columns
        """Names of columns that the user chose, such as `time`."""
        self.others: set[Path] = set()
        """Other files that were read with this one."""

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    @cached_property
    def head(self) -> bytes:
        """The beginning of the file; empty for a folder."""
        if self.is_folder:
            return b""
        with self.open() as file:
            return file.read(_HEAD_BYTES)

    @cached_property
    def first_line(self) -> str:
        """The first line without its end and without a byte order mark."""
        return self.head.partition(b"\n")[0].decode("utf-8-sig", "replace").rstrip("\r")

    def has_keys(self, *keys: str) -> bool:
        """Return whether the beginning of the file is JSON with all these keys at any level."""
        return self.head.lstrip()[:1] in (b"{", b"[") and all(
            re.search(rb'"%s"\s*:' % re.escape(key.encode()), self.head) for key in keys
        )

    def member(self, *names: str) -> ResultFile | None:
        """Return the first file of the folder that exists under one of these names, which may be patterns."""
        for name in names:
            if (path := next(iter(sorted(self.path.glob(name))), None)) is not None:
                return ResultFile(path, self.columns)
        return None

    def beside(self, name: str) -> ResultFile | None:
        """Return another file in the folder of this one, if there is one. The digest covers it, too."""
        path = self.path.with_name(name)
        if path == self.path or not path.is_file():
            return None
        self.others.add(path)
        return ResultFile(path)

    def open(self) -> BinaryIO:
        """Open the file for reading, decompressed."""
        with open(self.path, "rb") as file:
            is_compressed = file.read(2) == _GZIP
        return cast(BinaryIO, gzip.open(self.path)) if is_compressed else open(self.path, "rb", _BUFFER_BYTES)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines with their ends."""
        with self.open() as file:
            yield from file

    def text_lines(self) -> Iterator[str]:
        """Yield the lines as text, without their ends."""
        for line in self.lines():
            yield line.decode("utf-8-sig", "replace").rstrip("\r\n")

    def rows(self, delimiter: str = ",") -> Iterator[Sequence[str]]:
        """Yield the rows of a CSV file."""
        yield from csv.reader(self.text_lines(), delimiter=delimiter)

    def dict_rows(self, delimiter: str = ",") -> Iterator[dict[str, str]]:
        """Yield the rows of a CSV file by the names in its first row.

        Raises ValueError for a row of another length.
        """
        rows = self.rows(delimiter)
        names = next(rows, [])
        for number, row in enumerate(rows, 2):
            if row and len(row) != len(names):
                raise ValueError(f"row {number} has {len(row)} cells instead of {len(names)}")
            if row:
                yield dict(zip(names, row, strict=True))

    def json(self) -> Any:
        """Return the whole file as JSON. Raise ValueError if it is none."""
        with self.open() as file:
            data = file.read(limits.IMPORTED_JSON_BYTES + 1)
        if len(data) > limits.IMPORTED_JSON_BYTES:
            raise ValueError(f"JSON of more than {size(limits.IMPORTED_JSON_BYTES)} can't be read at once")
        return msgspec.json.decode(data)

    def json_lines(self) -> Iterator[Any]:
        """Yield the values of a file with one JSON value per line.

        Raises ValueError with the number of a bad line.
        """
        decoder = msgspec.json.Decoder()
        for number, line in enumerate(self.lines(), 1):
            if line.strip():
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise ValueError(f"line {number}: {error}") from error

    def digest(self) -> tuple[int, str]:
        """Return the size of the file and its SHA-256; of several files the sum, and that of all by name."""
        paths = self.path.rglob("*") if self.is_folder else (self.path, *self.others)
        digests: dict[Path, str] = {}
        for path in sorted(path for path in paths if path.is_file()):
            with open(path, "rb") as file:
                digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
        total = sum(path.stat().st_size for path in digests)
        if list(digests) == [self.path]:
            return total, digests[self.path]
        folder = self.path if self.is_folder else self.path.parent
        lines = "".join(f"{path.relative_to(folder)} {digest}\n" for path, digest in digests.items())
        return total, hashlib.sha256(lines.encode()).hexdigest()


def unix_ns(text: str) -> int:
    """Return the Unix time of an ISO 8601 text with up to nanoseconds. A time without a zone is UTC.

    Raises ValueError.
    """
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no time")
    second, fraction, zone = match.groups()
    return _second_ns(second, zone or "Z") + int((fraction or "0")[:9].ljust(9, "0"))


@lru_cache(maxsize=4_096)
def _second_ns(second: str, zone: str) -> int:
    text = f"{second.replace(' ', 'T')}{zone}".replace("Z", "+00:00")
    return int(datetime.fromisoformat(text).timestamp()) * 10**9


_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d+))?\s*(Z|[+-]\d\d:?\d\d)?")


_UNITS: Final = ((1e17, 1), (1e14, 1_000), (1e11, 1_000_000), (0, 1_000_000_000))
"""Least number of a Unix time, and its unit in nanoseconds."""


def time_ns(text: str) -> int:
    """Return the Unix time of a text: ISO 8601, or a number whose size tells its unit. Raises ValueError."""
    try:
        number = float(text)
    except ValueError:
        return unix_ns(text)
    unit_ns = next(unit_ns for least, unit_ns in _UNITS if abs(number) >= least)
    return ns_of(int(text) if text.strip().isdigit() else number, unit_ns)


def ns_of(number: object, ns_per_unit: float = 1e9) -> int:
    """Return a time or duration in nanoseconds. Raise ValueError unless it is a finite number from 0 up."""
    if isinstance(number, str):
        number = float(number)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < _FAR:
        raise ValueError(f"{number!r} is no time")
    if isinstance(number, int):
        return round(number * ns_per_unit)
    whole = int(number)  # times of day in seconds keep their last digits
    return round(whole * ns_per_unit) + round((number - whole) * ns_per_unit)


_FAR: Final = 1e19


def refuse_unknown(error: Exception, path: Path, tool: str) -> UsageError:
    """Return the error of a file that an importer can't read."""
    if isinstance(error, KeyError | IndexError):
        what = f"it lacks {error.args[0]!r}" if isinstance(error, KeyError) and error.args else "it is incomplete"
    else:
        what = str(error) or type(error).__name__
    return UsageError(f"{path} can't be read as a result of {tool}: {what}", hint="is the file complete?")
