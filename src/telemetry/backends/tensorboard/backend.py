"""A backend that writes a folder for TensorBoard: a file for items over time, and a file for each axis of steps.

  <logdir>/<run>/…params            all parameters; replaced when more arrive
  <logdir>/<run>/…values            readings, marks and all items without a step
  <logdir>/<run>/<axis>/…values     steps

Each axis is a separate run in TensorBoard, so that a name on two axes yields two curves in a chart.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Final

from msgspec import Struct

from telemetry.backends import pictures
from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable, missing
from telemetry.backends.items import (
    Artifact,
    Histogram,
    Item,
    Mark,
    Params,
    Reading,
    SeriesReading,
    Step,
    Table,
    Text,
    without_gaps,
)
from telemetry.backends.naming import FINAL, flat
from telemetry.common.file_lock import lock_file
from telemetry.common.formatting import number_of
from telemetry.common.wording import labelled
from telemetry.store.append_file import AS_UMASK, AppendFile, describe
from telemetry.store.atomic import sync_directory, write_atomic
from telemetry.wire.events import Scalar

Setting = str | float | bool
ROOT: Final = ""
"""Axis of items without a step: its steps are whole seconds since the run's start."""
MARKS: Final = "marks"
_TOP_SINGLE: Final = 3.4028234663852886e38
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "|": "\\|", "\r": " ", "\n": " "})
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
            folder_names = set(map(folder_name, sizes))
            for path in self._folder.glob(f"*/{self._file_name('values')}"):
                if path.parent.name not in folder_names:
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
    with suppress(OSError):  # a file system without locks
        if not lock_file(file.fd):
            raise NotConfigured(f"another writer writes to {file.path.parent}", hint="choose another logdir")


# So a file that is cut back to its acknowledged size and then continued equals the original file. A TensorBoard
# that reads it meanwhile sees no difference.


class Encoder:
    """A converter of items to records. Raises NotConfigured if TensorBoard is not installed."""

    def __init__(self, started_ns: int, *, doubles: bool, spread: bool) -> None:
        """Import TensorBoard.

        `doubles`: write 64-bit tensors instead of 32-bit floats. `spread`: also write the minimum and maximum of
        values that several producers reported.
        """
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
            from tensorboard.plugins.hparams import metadata as hparams_metadata
            from tensorboard.plugins.hparams import plugin_data_pb2, summary_v2
            from tensorboard.plugins.scalar import metadata as scalar_metadata
            from tensorboard.plugins.text import metadata as text_metadata
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError as error:
            raise missing("tensorboard", "tensorboard", error) from error
        self._started_ns = started_ns
        self._doubles = doubles
        self._spread = spread
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._histogram: Any = summary_pb2.HistogramProto
        self._tensor: Any = tensor_pb2.TensorProto
        self._types: Any = types_pb2
        self._writer: Any = RecordWriter
        self._hparams: Any = plugin_data_pb2
        self._hparams_metadata: Any = hparams_metadata
        self._hparams_pb: Any = summary_v2.hparams_pb
        self._scalar: Any = scalar_metadata.create_summary_metadata("", "")
        self._text: Any = text_metadata.create_summary_metadata("", "")
        self._one: Any = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])

    def head(self) -> bytes:
        """Return the first record of each file."""
        return self._record(self._event(wall_time=self._started_ns / 1e9, file_version="brain.Event:2"))

    def records(self, item: Item) -> Iterator[tuple[str, bytes]]:
        """Yield (axis, record) for an item of a kind in `TensorBoardBackend.takes`."""
        match item:
            case Step():
                yield item.axis, self._event_of(item.time_ns, item.step, self._step(item))
            case Reading():
                yield ROOT, self._event_of(item.time_ns, math.floor(item.elapsed_s), self._reading(item))
            case Mark():
                labels = {"producer": item.producer} | item.labels if item.producer else item.labels
                text = item.text + (f"\n\n{table(['', ''], list(labels.items()))}" if labels else "")
                yield self._placed("", 0, item.time_ns, self._text_value(MARKS, text))
            case Text():
                yield self._placed(
                    item.axis, item.step, item.time_ns, self._text_value(f"{item.name}/text", item.text)
                )
            case Table():
                value = self._text_value(f"{item.name}/table", table(item.columns, item.rows))
                yield self._placed(item.axis, item.step, item.time_ns, value)
            case Histogram():
                yield self._placed(item.axis, item.step, item.time_ns, self._bins(item))
            case Artifact():
                yield self._placed(item.axis, item.step, item.time_ns, self._artifact(item))

    def params(self, values: Mapping[str, Setting], run_id: str, ended_ns: int) -> bytes:
        """Return a whole file of parameters, for the plugin that compares runs. `ended_ns` is 0 for a live run."""
        started_s = self._started_ns / 1e9
        summary = self._hparams_pb(values, run_id, started_s)
        whole = self.head() + self._record(self._event(wall_time=started_s, summary=summary))
        if not ended_ns:
            return whole
        end = self._hparams.SessionEndInfo(end_time_secs=ended_ns / 1e9)
        value = self._summary.Value(
            tag=self._hparams_metadata.SESSION_END_INFO_TAG,
            metadata=self._hparams_metadata.create_summary_metadata(
                self._hparams.HParamsPluginData(session_end_info=end)
            ),
            tensor=self._hparams_metadata.NULL_TENSOR,
        )
        return whole + self._event_of(ended_ns, 0, [value])

    # --- values --------------------------------------------------------------------------------------

    def _step(self, step: Step) -> Iterator[Any]:
        for name, value in step.values.items():
            yield self._number(name, value)
        if self._spread:
            for name, spread in step.spread.items():
                yield self._number(f"{name}/min", spread.min)
                yield self._number(f"{name}/max", spread.max)

    def _reading(self, reading: Reading) -> Iterator[Any]:
        for name, value in flat(reading).items():
            yield self._number(name, value)
        head = FINAL if reading.final else ""
        for series in reading.series:
            if series.cells:
                yield self._cells(f"{head}{labelled(series.name, series.labels)}/histogram", series)

    def _number(self, tag: str, value: float) -> Any:
        if self._doubles or _TOP_SINGLE < abs(value) < math.inf:
            tensor = self._tensor(dtype=self._types.DT_DOUBLE, double_val=[value])
            return self._summary.Value(tag=tag, metadata=self._scalar, tensor=tensor)
        return self._summary.Value(tag=tag, simple_value=value)

    def _text_value(self, tag: str, text: str) -> Any:
        data = text.encode("utf-8", "replace")
        tensor = self._tensor(dtype=self._types.DT_STRING, string_val=[data], tensor_shape=self._one)
        return self._summary.Value(tag=tag, metadata=self._text, tensor=tensor)

    def _cells(self, tag: str, series: SeriesReading) -> Any:
        (_, *limits), counts = without_gaps(series.cells)
        low, high = series.cells[0][0], series.cells[-1][1]
        return self._histo(
            tag,
            low if series.min is None else series.min,
            high if series.max is None else series.max,
            limits,
            counts,
        )

    def _bins(self, item: Histogram) -> Any:
        return self._histo(f"{item.name}/histogram", item.edges[0], item.edges[-1], item.edges[1:], item.counts)

    def _histo(self, tag: str, low: float, high: float, limits: Sequence[float], counts: Sequence[int]) -> Any:
        lefts = [low, *limits[:-1]]
        middles = [(left + right) / 2 for left, right in zip(lefts, limits, strict=True)]
        histogram = self._histogram(
            min=low,
            max=high,
            num=sum(counts),
            sum=sum(middle * count for middle, count in zip(middles, counts, strict=True)),
            sum_squares=sum(middle * middle * count for middle, count in zip(middles, counts, strict=True)),
            bucket_limit=limits,
            bucket=counts,
        )
        return self._summary.Value(tag=tag, histo=histogram)

    def _artifact(self, item: Artifact) -> Any:
        data = pictures.read(item.uri) if item.kind == "image" else None
        picture = pictures.png(data) if data is not None else None
        if picture is None:
            kind = f"{item.kind}: " if item.kind else ""
            return self._text_value(f"{item.name}/artifact", f"{kind}`{item.uri}`")
        image = self._summary.Image(
            width=picture.width,
            height=picture.height,
            colorspace=picture.channels,
            encoded_image_string=picture.data,
        )
        return self._summary.Value(tag=f"{item.name}/image", image=image)

    # --- records -------------------------------------------------------------------------------------

    def _placed(self, axis: str, step: int, time_ns: int, value: Any) -> tuple[str, bytes]:
        if not axis:
            step = max(0, time_ns - self._started_ns) // 1_000_000_000
        return axis, self._event_of(time_ns, step, [value])

    def _event_of(self, time_ns: int, step: int, values: Iterable[Any]) -> bytes:
        return self._record(self._event(wall_time=time_ns / 1e9, step=step, summary=self._summary(value=values)))

    def _record(self, event: Any) -> bytes:
        sink = BytesIO()
        self._writer(sink).write(event.SerializeToString())
        return sink.getvalue()


def settings(values: Mapping[str, Scalar]) -> dict[str, Setting]:
    """Convert parameters for the plugin: it stores numbers as 64-bit floats, and infinity breaks its answers."""
    return {name: _setting(value) for name, value in values.items()}


def table(columns: Sequence[str], rows: Iterable[Sequence[Scalar]]) -> str:
    """Format a table as Markdown."""
    lines = [
        [_cell(name) for name in columns],
        ["---"] * len(columns),
        *([_cell(cell) for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Scalar) -> str:
    return "" if value is None else str(value).translate(_ESCAPED)


def _setting(value: Scalar) -> Setting:
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= 1 << 53 else str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
