"""Capture of transformers and TRL: what each Trainer logs, its arguments, its checkpoints, TRL's completions.

A callback joins the default callbacks of `transformers.trainer`, so that every Trainer made from then on has it.
The callback never sees completions. They are taken where a trainer of TRL calls `Trainer.log`, without their texts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from telemetry.client import module_level as telemetry
from telemetry.client.steps import DEFAULT_AXIS
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch
from telemetry.integrations.loop_axes import LoopAxes, record_params, record_total
from telemetry.integrations.transformers.completions import table_of

_OBSERVERS: Final = Observers("transformers")
_TARGET: Final = "telemetry"
_TABLES: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()
"""Newest table of each trainer: TRL hands over the same rows again when the training ends."""


_FIRST_SETTINGS: Final[dict[str, Any]] = {}
"""Arguments of the first Trainer. Later ones record what differs."""


class _DefaultCallback(Patch):
    """A class in the list of callbacks that each Trainer gets."""

    def __init__(self, module: ModuleType, callback: type) -> None:
        self._owner = module
        self._name = "DEFAULT_CALLBACKS"
        self._callbacks: list[type] = module.DEFAULT_CALLBACKS
        self._callback = callback

    def install(self) -> None:
        """Add the class once."""
        if not any(each is self._callback for each in self._callbacks):
            self._callbacks.append(self._callback)

    def remove(self) -> None:
        """Remove the class."""
        self._callbacks[:] = [each for each in self._callbacks if each is not self._callback]


class _ReportTarget(Patch):
    """A name that `report_to` accepts. It adds nothing, since every Trainer has the callback already."""

    def __init__(self, module: ModuleType, base: type) -> None:
        self._owner = module
        self._name = "INTEGRATION_TO_CALLBACK"
        self._targets: dict[str, type] = module.INTEGRATION_TO_CALLBACK
        self._inert = type("TelemetryReportTarget", (base,), {"__doc__": "A callback without any effect."})

    def install(self) -> None:
        """Add the name, unless transformers has it."""
        self._targets.setdefault(_TARGET, self._inert)

    def remove(self) -> None:
        """Remove the name."""
        if self._targets.get(_TARGET) is self._inert:
            del self._targets[_TARGET]


def _patches(module: ModuleType) -> Iterable[Patch]:
    base = module.TrainerCallback
    reporting = sys.modules[module.get_reporting_integration_callbacks.__module__]
    return [
        _DefaultCallback(module, _callback_class(base)),
        _ReportTarget(reporting, base),
        Patch(module.Trainer, "log", _OBSERVERS.after(_record_completions, "the completions of Trainer.log")),
    ]


def _callback_class(base: Any) -> type:
    existing = globals().get("TelemetryCallback")
    if isinstance(existing, type) and issubclass(existing, base):
        return existing

    class TelemetryCallback(base):  # type: ignore[misc]  # the base is of another library
        """A callback that records what its Trainer logs. The first process of the job records."""

        def __init__(self) -> None:
            self.axes = LoopAxes()

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
            _OBSERVERS.run("on_train_begin", _record_beginning, self.axes, args, state, model)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            _OBSERVERS.run("on_log", _record_logs, self.axes, state, logs)

        def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            _OBSERVERS.run("on_save", _record_checkpoint, self.axes, args, state)

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            _OBSERVERS.run("on_train_end", _record_end, self.axes, state)

    TelemetryCallback.__module__ = __name__
    TelemetryCallback.__qualname__ = "TelemetryCallback"  # so that pickle finds it
    globals()["TelemetryCallback"] = TelemetryCallback
    return TelemetryCallback


def _record_beginning(axes: LoopAxes, args: Any, state: Any, model: Any) -> None:
    axes.axis(DEFAULT_AXIS, state.global_step)  # a second training of the same Trainer begins again
    if not state.is_world_process_zero:
        return
    axis = axes.current()
    record_total(state.max_steps, axis)
    telemetry.mark("training began", library="transformers", axis=axis, max_steps=state.max_steps)
    settings = args.to_dict()
    if axes.number == 1:
        _FIRST_SETTINGS.update(settings)
    else:
        settings = {name: value for name, value in settings.items() if _FIRST_SETTINGS.get(name) != value}
    record_params(settings, axes.number)
    if model is not None:
        _OBSERVERS.run("the model's parameters", _record_model, axes, model)


def _record_model(axes: LoopAxes, model: Any) -> None:
    facts: dict[str, Any] = {"class": type(model).__name__}
    name = getattr(model, "name_or_path", "")
    if name:
        facts["name"] = name
    if hasattr(model, "num_parameters"):
        facts["parameters"] = model.num_parameters()
        facts["trainable_parameters"] = model.num_parameters(only_trainable=True)
    record_params({"model": facts}, axes.number)


def _record_logs(axes: LoopAxes, state: Any, logs: Mapping[str, Any] | None) -> None:
    step = state.global_step
    axis = axes.axis(DEFAULT_AXIS, step)
    if logs and state.is_world_process_zero:
        values = {name: value for name, value in logs.items() if value is not None and not isinstance(value, str)}
        telemetry.log(values, step=step, axis=axis)


def _record_checkpoint(axes: LoopAxes, args: Any, state: Any) -> None:
    path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
    if state.is_world_process_zero and os.path.isdir(path):  # a search for hyperparameters has other folders
        axis = axes.current()
        telemetry.artifact("checkpoint", path, "model", step=state.global_step, axis=axis)


def _record_end(axes: LoopAxes, state: Any) -> None:
    if state.is_world_process_zero:
        telemetry.mark("training ended", library="transformers", axis=axes.current(), step=state.global_step)


def _record_completions(result: Any, trainer: Any, *args: Any, **kwargs: Any) -> None:
    """Record the completions of a trainer of TRL that is asked to log them."""
    state = trainer.state
    if not getattr(trainer, "log_completions", False) or not state.is_world_process_zero:
        return
    table = table_of(getattr(trainer, "_logs", None))
    recorded = (state.global_step, table)
    axes = next((each.axes for each in trainer.callback_handler.callbacks if _is_ours(each)), None)
    if table is None or axes is None or _TABLES.get(trainer) == recorded:
        return
    _TABLES[trainer] = recorded
    columns, rows = table
    telemetry.table("completions", columns, rows, step=state.global_step, axis=axes.current())


def _is_ours(callback: Any) -> bool:
    return type(callback).__module__ == __name__


def __getattr__(name: str) -> Any:
    """Make the callback for a pickled Trainer that another process reads."""
    if name != "TelemetryCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _callback_class(import_module("transformers").TrainerCallback)


_CAPTURE: Final = Capture({"transformers.trainer": _patches}, "transformers")
install = _CAPTURE.install
uninstall = _CAPTURE.uninstall
