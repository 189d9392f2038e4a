"""Capture of what programs give to a SummaryWriter, that of torch or that of tensorboardX.

All methods `add_*` are observed. Numbers, histograms, texts and hyperparameters are recorded. Of pictures, sounds,
graphs and the like only a reference to the log folder is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Final

from telemetry import limits
from telemetry.client import module_level as run
from telemetry.client import user_warnings
from telemetry.client.module_level import log_number
from telemetry.client.step_axes import SHARED
from telemetry.client.steps import DEFAULT_AXIS, number
from telemetry.client.wall_time import monotonic_ns
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Function, Observers, Patch
from telemetry.integrations.tensorboard.values import (
    LogFolders,
    WriterNames,
    argument_names,
    plain_number,
    plain_settings,
    raw_bins,
    step_of,
)

_MODULES: Final = ("torch.utils.tensorboard.writer", "tensorboardX.writer")
_KIND: Final = "tensorboard"

_USUAL: Final = ("tag", "scalar_value", "global_step")

_OBSERVERS: Final = Observers("tensorboard")


class TensorBoardRecorder:
    """A translator from calls of all writers of this process to records. Thread-safe."""

    def __init__(self) -> None:
        self.folders = LogFolders()
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.names = WriterNames()
        self.axes = SHARED
        self._referred: set[tuple[str, str]] = set()
        self._told: set[str] = set()
        self._sessions: dict[tuple[str, str], str] = {}
        """Prefixes of sets of hyperparameters by log folder and name of the set."""

    # --- methods of the writer -------------------------------------------------------------------

    def begin(self, writer: Any, given: Mapping[str, Any]) -> None:
        """Name a new writer, and record that it replaces steps of an earlier one."""
        folder = self.folders.of(writer)
        self.names.meet(folder)
        purge_step = given.get("purge_step")
        if purge_step is not None:
            labels = {"log_dir": folder, "purge_step": purge_step}
            run.mark(f"TensorBoard values from step {purge_step} on are written again", labels=labels)

    def scalar(self, writer: Any, given: Mapping[str, Any]) -> None:
        name = self.names.name(self.folders.of(writer), given["tag"])
        self._put(name, given["scalar_value"], step_of(given), given.get("walltime"))

    def scalars(self, writer: Any, given: Mapping[str, Any]) -> None:
        folder, step, walltime = self.folders.of(writer), step_of(given), given.get("walltime")
        for key, value in given["tag_scalar_dict"].items():
            self._put(self.names.name(folder, f"{given['main_tag']}/{key}"), value, step, walltime)

    def histogram(self, writer: Any, given: Mapping[str, Any]) -> None:
        self._put_bins(writer, given, given["values"])

    def histogram_raw(self, writer: Any, given: Mapping[str, Any]) -> None:
        self._put_bins(writer, given, raw_bins(given["min"], given["bucket_limits"], given["bucket_counts"]))

    def text(self, writer: Any, given: Mapping[str, Any]) -> None:
        name = self.names.name(self.folders.of(writer), given["tag"])
        run.text(name, str(given["text_string"]), **self._place(name, given))

    def hparams(self, writer: Any, given: Mapping[str, Any]) -> None:
        """Record hyperparameters and their metrics. Further sets of a process get a prefix."""
        folder, step = self.folders.of(writer), step_of(given)
        session = self._session(folder, given.get("run_name") or given.get("name"))
        prefix = "/".join(filter(None, (self.names.meet(folder), session)))
        settings = plain_settings(given["hparam_dict"])
        run.params({prefix: settings} if prefix else settings)
        for key, value in given["metric_dict"].items():
            name = self.names.name(folder, f"{session}/{key}" if session else key)
            self._put(name, value, step, None)

    def other(self, method: str, writer: Any, given: Mapping[str, Any]) -> None:
        """Record where the data is, once for each tag."""
        folder = self.folders.of(writer)
        tag = given.get("tag") or method.removeprefix("add_")
        name = self.names.name(folder, tag)
        if method not in self._told:
            self._told.add(method)
            user_warnings.warn(f"data given to {method} is not kept, only a reference to its folder {folder}")
        if (name, method) in self._referred or len(self._referred) >= limits.TENSORBOARD_REFERENCES:
            return
        self._referred.add((name, method))
        run.artifact(name, folder, kind=_KIND, **self._place(name, given))

    # --- helpers ---------------------------------------------------------------------------------

    def _put(self, name: str, value: Any, step: int | None, walltime: Any) -> None:
        if step is None:
            self._put_without_step(name, plain_number(value), monotonic_ns(walltime))
            return
        axis, plain = self.axes.axis(name, step), plain_number(value)
        if walltime is not None or not log_number(name, plain, step, axis):
            run.log({name: plain}, step=step, axis=axis, at_ns=monotonic_ns(walltime))

    def _put_without_step(self, name: str, value: Any, at_ns: int | None) -> None:
        plain = number(value)
        if plain is None:  # a gauge holds finite numbers only
            run.text(name, str(value.item() if hasattr(value, "item") else value), at_ns=at_ns)
        else:
            run.gauge(name).set(plain, at_ns=at_ns)

    def _put_bins(self, writer: Any, given: Mapping[str, Any], values: Any) -> None:
        name = self.names.name(self.folders.of(writer), given["tag"])
        run.histogram(name, values, **self._place(name, given))

    def _place(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the step, its axis and the time of a record."""
        step = step_of(given)
        axis = DEFAULT_AXIS if step is None else self.axes.near(name, step)
        return {"step": step, "axis": axis, "at_ns": monotonic_ns(given.get("walltime"))}

    def _session(self, folder: str, name: Any) -> str:
        """Return the prefix of a set of hyperparameters. The first set of a process has none."""
        count = len(self._sessions) + 1
        key = (folder, str(name) if name else f"session {count}")
        if key not in self._sessions and count <= limits.TENSORBOARD_SESSIONS:
            self._sessions[key] = key[1] if self._sessions else ""
        return self._sessions.get(key, key[1])


def _fill_defaults(writer: Any, given: dict[str, Any]) -> None:
    """Add the step and time of tensorboardX's `use_metadata`, which hold within its `with` block."""
    defaults = getattr(writer.file_writer, "_default_metadata", None)
    for key, value in (defaults or {}).items():
        if given.get(key) is None:
            given[key] = value


_RECORDER: Final = TensorBoardRecorder()
_OBSERVED: Final[Mapping[str, Callable[[Any, dict[str, Any]], None]]] = {
    "__init__": _RECORDER.begin,
    "add_scalar": _RECORDER.scalar,
    "add_scalars": _RECORDER.scalars,
    "add_histogram": _RECORDER.histogram,
    "add_histogram_raw": _RECORDER.histogram_raw,
    "add_text": _RECORDER.text,
    "add_hparams": _RECORDER.hparams,
}


def _patches(module: ModuleType) -> list[Patch]:
    writer = module.SummaryWriter
    methods = ["__init__", *(name for name in dir(writer) if name.startswith("add_"))]
    return [Patch(writer, name, _wrap(name, hasattr(writer, "use_metadata"))) for name in methods]


def _wrap(method: str, has_defaults: bool) -> Callable[[Function], Function]:
    observe = _OBSERVED.get(method) or partial(_RECORDER.other, method)
    # Scalars of one chart have files of their own in tensorboardX, which know no defaults.
    fills = has_defaults and method not in ("__init__", "add_scalars", "add_hparams")

    def wrap(original: Function) -> Function:
        names = argument_names(original, method)

        def observed(_result: Any, writer: Any, /, *args: Any, **kwargs: Any) -> None:
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            if fills:
                _fill_defaults(writer, given)
            observe(writer, given)

        what = f"SummaryWriter.{method}"
        if names[:3] == _USUAL and not fills:
            return _OBSERVERS.after(_faster(observed), what, nests=False)(original)
        return _OBSERVERS.after(observed, what)(original)

    return wrap


def _faster(observed: Callable[..., None]) -> Callable[..., None]:
    """Return an observer of `add_scalar` that takes half of the time for a tag, a float and a step."""
    recorder = _RECORDER
    folder_of = recorder.folders.get

    def observed_scalar(result: Any, writer: Any, /, *args: Any, **kwargs: Any) -> None:
        if len(args) == 3 and not kwargs:
            tag, value, step = args
            name = recorder.names.known.get((folder_of(writer), tag))
            if name and type(value) is float and type(step) is int:
                axis = recorder.axes.axis(name, step)
                if log_number(name, value, step, axis):
                    return
        observed(result, writer, *args, **kwargs)

    return observed_scalar


_CAPTURE: Final = Capture(dict.fromkeys(_MODULES, _patches), "tensorboard")


def install() -> None:
    """Record what programs give to a SummaryWriter, from now on."""
    _CAPTURE.install()


def uninstall() -> None:
    """Restore the writers, and forget their names."""
    _CAPTURE.uninstall()
    _RECORDER.forget()
