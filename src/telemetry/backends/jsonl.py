"""The `jsonl` backend: each item as a line of JSON, exactly once."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import KINDS, Item, Live
from telemetry.store.append_file import AS_UMASK, AppendFile, describe

_FILE: Final = "items.jsonl"
_MAY_PASS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE)
_ENCODER: Final = msgspec.json.Encoder()


class JsonlOptions(Struct, frozen=True, forbid_unknown_fields=True):
    path: str = ""
    """Path of the file; empty for `items.jsonl` in the writer's folder."""


class JsonlBackend:
    """A backend that writes lines such as `{"item": "step", "key": …, …}`. A number that is not finite is null."""

    Options: ClassVar[type[Struct]] = JsonlOptions
    takes: ClassVar[tuple[type[Item], ...]] = tuple(kind for kind in KINDS if kind is not Live)
    idempotent: ClassVar[bool] = True

    def __init__(self, options: JsonlOptions, place: Path) -> None:
        self._path = Path(os.path.abspath(options.path)) if options.path else place / _FILE
        self._place = place
        self._ours = not options.path
        self._file: AppendFile | None = None
        self._size = 0
        """Acknowledged bytes. Data beyond them is delivered again."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        size = int(state.get("size", 0))
        if size and not self._path.exists():
            raise self._lost("was removed")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = AppendFile(self._path, AS_UMASK)
        except OSError as error:
            if error.errno in _MAY_PASS:
                raise
            raise NotConfigured(f"jsonl: {describe(error)}") from error
        if not state and file.size and not self._ours:
            file.close()
            raise NotConfigured(f"{self._path} already exists", hint="move it away, or choose another path")
        if file.size < size:
            file.close()
            raise self._lost("was truncated")
        self._file, self._size = file, size
        file.cut(size)

    def write(self, items: Sequence[Item]) -> None:
        file = self._opened()
        if file.size != self._size:
            file.cut(self._size)
        file.append([b"".join(map(line, items))])

    def flush(self) -> None:
        self._look()
        self._size = self._opened().size

    def state(self) -> dict[str, Any]:
        return {"size": self._size}

    def close(self, *, final: bool) -> None:
        if self._file is None:
            return
        if final:
            self._look()
        self._file.close()

    def where(self) -> str:
        return str(self._path) if self._file is not None else ""

    def _opened(self) -> AppendFile:
        assert self._file is not None
        return self._file

    def _look(self) -> None:
        """Check that the file at the path still holds all written data, because writes to a removed file succeed.

        Raises NotConfigured.
        """
        file = self._opened()
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            raise self._lost("was removed") from None
        if not os.path.samestat(there, os.fstat(file.fd)):
            raise self._lost("was replaced by another file")
        if there.st_size < file.size:
            raise self._lost("was truncated")

    def _lost(self, what: str) -> NotConfigured:
        return NotConfigured(
            f"{self._path} {what}",
            hint=f"to write the whole run again, remove {self._place.parent} and repeat the export",
        )


def line(item: Item) -> bytes:
    """Encode an item, with a line end."""
    return _ENCODER.encode({"item": type(item).__name__.lower(), **asdict(item)}) + b"\n"
