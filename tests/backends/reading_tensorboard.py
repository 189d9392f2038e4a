"""Reads event files with TensorBoard's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.backends.written import Written

_FINAL = "final/"
_ALL = dict.fromkeys(("scalars", "tensors", "histograms", "images", "audio", "compressedHistograms"), 0)


def read_back(folder: Path, where: str) -> Written:
    """`where` is the logdir; it holds one run."""
    found = Written(counts={"step": 0, "reading": 0})
    top = min((path.parent for path in Path(where or folder).rglob("*.params")), key=lambda path: len(path.parts))
    for path in top.rglob("*.values"):
        axis = "" if path.parent == top else unquote(path.parent.name)
        reader = accumulated(path.parent)
        readings: set[int] = set()
        for tag, step, value in _numbers(reader):
            if axis:
                found.steps.setdefault((axis, step), {})[tag] = value
                found.counts["step"] += 1
            elif tag.startswith(_FINAL):
                found.finals[tag.removeprefix(_FINAL)] = value
            else:
                readings.add(step)
        found.counts["reading"] += len(readings)
        for tag in reader.Tags()["tensors"]:
            kind = tag.rpartition("/")[2]
            if kind in ("text", "table", "marks", "artifact"):
                found.counts[kind] = found.counts.get(kind, 0) + len(reader.Tensors(tag))
        if not axis:
            found.params = _params(reader)
    return found


def accumulated(folder: Path) -> Any:
    """Everything of one run of TensorBoard's, nothing sampled away."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), size_guidance=_ALL).Reload()


def text(event: Any) -> str:
    """Return the text of one event of the text plugin."""
    return str(event.tensor_proto.string_val[0].decode())


def _numbers(reader: Any) -> Iterator[tuple[str, int, float]]:
    for tag in reader.Tags()["scalars"]:
        for event in reader.Scalars(tag):
            yield tag, event.step, event.value
    for tag in reader.Tags()["tensors"]:
        if reader.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
            for event in reader.Tensors(tag):
                yield tag, event.step, event.tensor_proto.double_val[0]


def _params(reader: Any) -> dict[str, str]:
    from tensorboard.plugins.hparams import metadata

    content = reader.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    settings = metadata.parse_session_start_info_plugin_data(content).hparams
    return {name: str(getattr(one, one.WhichOneof("kind"))) for name, one in settings.items()}
