"""A backend that writes a folder for TensorBoard: a file for items over time, and a file for each axis of steps.

  <logdir>/<run>/…params            all parameters; replaced when more arrive
  <logdir>/<run>/…values            readings, marks and all items without a step
  <logdir>/<run>/<axis>/…values     steps

Each axis is a separate run in TensorBoard, so that a name on two axes yields two curves in a chart.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Final

from msgspec import Struct

from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Reading, Step, Table, Text
from telemetry.backends.tensorboard.events import ROOT, Encoder, Setting, settings
from telemetry.formatting import number_of
from telemetry.store.append_file import AS_UMASK, AppendFile, describe
from telemetry.store.atomic import sync_directory, write_atomic

_FOLDER_BYTES: Final = 200  # of 255 that file systems allow
_IN_FOLDERS: Final = str.maketrans({char: f"%{ord(char):02X}" for char in [*map(chr, range(32)), "%", "/", "\x7f"]})


class TensorBoardOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    logdir: str = ""
    """Directory to open in TensorBoard. Empty: folder of the writer."""
    doubles: bool = False
    """True to write 64-bit tensors. TensorBoard shows both alike; older readers only know 32-bit scalars."""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class TensorBoardBackend:
    """The TensorBoard backend. Each item is written exactly once, even after SIGKILL.

    Data after the last checkpoint is cut off and delivered again.
    """

    Options: ClassVar[type[Struct]] = TensorBoardOptions
    takes: ClassVar[tuple[type[Item], ...]] = (
        *(Step, Reading, Params, Mark),
        *(Text, Table, Histogram, Artifact),
    )
    idempotent: ClassVar[bool] = True

    def __init__(self, options: TensorBoardOptions, place: Path) -> None:
        self._options = options
        self._logdir = Path(options.logdir).expanduser().absolute() if options.logdir else place
        self._run: RunFacts
        self._encoder: Encoder
        self._folder = self._logdir
        self._files: dict[str, AppendFile] = {}
        self._flushed: dict[str, int] = {}
        """Axis → file size at the last `flush`."""
        self._params: dict[str, Setting] = {}
        self._params_written = False
        self._newest_ns = 0

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self.close(final=False)
        self._run = run
        self._encoder = Encoder(run.started_ns, doubles=self._options.doubles, spread=self._options.spread)
        name = run.directory.name if run.directory is not None else f"{run.name}-{run.run_id}"
        self._folder = self._logdir / folder_name(name)
        self._params = settings(run.params) | state.get("params", {})
        self._newest_ns = state.get("newest_ns", run.started_ns)
        sizes: dict[str, int] = state.get("sizes", {})
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Readers scan a folder by name and never return: settings sort before values and must exist first.
            self._write_params()
            self._file(ROOT, sizes.get(ROOT, 0))
            known = set(map(folder_name, sizes))
            for path in self._folder.glob(f"*/{self._file_name('values')}"):
                if path.parent.name not in known:
                    path.unlink()
            for axis, size in sizes.items():
                self._file(axis, size)
        except (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise NotConfigured(f"can't write {self._folder}: {describe(error)}") from error
        except OSError as error:
            raise Unavailable(describe(error)) from error
        self._flushed = self._sizes()

    def write(self, items: Sequence[Item]) -> None:
        records: dict[str, list[bytes]] = {}
        for item in items:
            self._newest_ns = max(self._newest_ns, item.time_ns)
            if isinstance(item, Params):
                self._params |= settings(item.values)
                self._params_written = False
            else:
                for axis, record in self._encoder.records(item):
                    records.setdefault(axis, []).append(record)
        try:
            for axis, parts in records.items():
                self._file(axis).append([b"".join(parts)])
        except OSError as error:
            raise self._took_back(error) from error

    def flush(self) -> None:
        try:
            if not self._params_written:
                self._write_params()
            for file in self._files.values():
                os.fdatasync(file.fd)
        except OSError as error:
            raise self._took_back(error) from error
        self._flushed = self._sizes()

    def state(self) -> dict[str, Any]:
        return {"sizes": self._sizes(), "params": self._params, "newest_ns": self._newest_ns}

    def close(self, *, final: bool) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        if final:
            try:
                self._write_params(ended_ns=self._newest_ns)
            except OSError as error:
                raise Unavailable(describe(error)) from error

    def where(self) -> str:
        return str(self._logdir) if hasattr(self, "_run") else ""

    # --- helpers -------------------------------------------------------------------------------------

    def _took_back(self, error: OSError) -> Unavailable:
        """Cut off all data since the last `flush`: after a failure it is delivered again."""
        for axis, file in self._files.items():
            file.cut(self._flushed.get(axis, len(self._encoder.head())))
        return Unavailable(describe(error))

    def _sizes(self) -> dict[str, int]:
        return {axis: file.size for axis, file in self._files.items()}

    def _file(self, axis: str, size: int = 0) -> AppendFile:
        """Return the open file, or open it and cut it to `size`. Raises OSError, NotConfigured."""
        if axis in self._files:
            return self._files[axis]
        folder = self._folder / folder_name(axis) if axis else self._folder
        folder.mkdir(exist_ok=True)
        file = AppendFile(folder / self._file_name("values"), AS_UMASK)
        try:
            if axis == ROOT:
                _claim(file)
            if file.size < size:
                raise NotConfigured(
                    f"{file.path} has {number_of(file.size, 'byte')}, but {size} were written",
                    hint="it was truncated or removed",
                )
            os.ftruncate(file.fd, size)
            file.size = size
            if not size:
                file.append([self._encoder.head()])
                sync_directory(folder)
        except BaseException:
            file.close()
            raise
        self._files[axis] = file
        return file

    def _write_params(self, ended_ns: int = 0) -> None:
        data = self._encoder.params(self._params, self._run.run_id, ended_ns)
        write_atomic(self._folder / self._file_name("params"), data)
        self._params_written = True

    def _file_name(self, what: str) -> str:
        return f"events.out.tfevents.{self._run.started_ns // 1_000_000_000:010d}.telemetry.{what}"


def folder_name(text: str) -> str:
    """Return a readable folder name for a text, without subfolders. Different texts yield different names."""
    name = text.translate(_IN_FOLDERS)
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name.encode("utf-8", "replace")) <= _FOLDER_BYTES:
        return name
    head = name.encode("utf-8", "replace")[: _FOLDER_BYTES - 17].decode("utf-8", "ignore")
    return f"{head}-{sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _claim(file: AppendFile) -> None:
    """Lock a file.

    Raises NotConfigured if another process writes it, because both would cut each other's records.
    """
    try:
        fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise NotConfigured(
                f"another writer writes to {file.path.parent}", hint="choose another logdir"
            ) from error
