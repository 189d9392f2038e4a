"""The conversion of items to records of an event file. Pure: an item always yields the same bytes.

So a file that is cut back to its acknowledged size and then continued equals the original file. A TensorBoard that
reads it meanwhile sees no difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from telemetry.backends import pictures
from telemetry.backends.backend import missing
from telemetry.backends.items import (
    Artifact,
    Histogram,
    Item,
    Mark,
    Reading,
    SeriesReading,
    Step,
    Table,
    Text,
    without_gaps,
)
from telemetry.backends.naming import FINAL, flat
from telemetry.wire.events import Scalar
from telemetry.wording import labelled

Setting = str | float | bool

ROOT: Final = ""
"""Axis of items without a step: its steps are whole seconds since the run's start."""
MARKS: Final = "marks"
_TOP_SINGLE: Final = 3.4028234663852886e38
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "|": "\\|", "\r": " ", "\n": " "})


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
        found = pictures.png(data) if data is not None else None
        if found is None:
            kind = f"{item.kind}: " if item.kind else ""
            return self._text_value(f"{item.name}/artifact", f"{kind}`{item.uri}`")
        image = self._summary.Image(
            width=found.width, height=found.height, colorspace=found.channels, encoded_image_string=found.data
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
