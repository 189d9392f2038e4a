"""Capture of Lightning: metrics, hyperparameters, checkpoints, and how each fit went.

Metrics are taken where Lightning hands them to its loggers: reduced, without the sanity check, and also if a
Trainer has no logger. The Trainer itself is not changed, so checkpoints stay where they were.

`TelemetryLogger` is a Lightning logger for programs that name their loggers. It loads Lightning on first use.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from telemetry.client import module_level as telemetry
from telemetry.client.redaction import REDACTION
from telemetry.client.steps import DEFAULT_AXIS
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch
from telemetry.integrations.loop_axes import LoopAxes, record_own, record_params, record_total

_OBSERVERS: Final = Observers("lightning")
_FIT: Final = "fit"
_METHODS: Final = ("fit", "validate", "test")
_DATALOADER: Final = "/dataloader_idx_"
_REASON_CHARS: Final = 200


_PATCHED: Final[set[str]] = set()
"""Modules of Lightning that were captured at any time."""


class _Loop:
    """State of the capture for one Trainer."""

    def __init__(self, trainer: Any) -> None:
        explicit = (each.axes for each in trainer.loggers if _is_ours(each))
        self.axes: LoopAxes = next(explicit, None) or LoopAxes()
        self.has_params = False
        self.expected: tuple[str, int] | None = None
        """Axis and number of steps that were recorded as the total."""
        self._loggers: Any = None
        self._logger_count = -1
        self._is_silent = False

    def is_silent(self, trainer: Any) -> bool:
        """Return whether there is nothing to record, or a TelemetryLogger records it."""
        loggers = trainer.loggers
        if loggers is not self._loggers or len(loggers) != self._logger_count:
            self._loggers, self._logger_count = loggers, len(loggers)
            self._is_silent = _is_trial(trainer) or any(map(_is_ours, loggers))
        return self._is_silent


_LOOPS: Final[WeakKeyDictionary[Any, _Loop]] = WeakKeyDictionary()


class _Newest(threading.local):
    """The Trainer that ran last in this thread. Calls of a logger do not name their Trainer."""

    trainer: Callable[[], Any] = staticmethod(lambda: None)
    loop: _Loop


_NEWEST: Final = _Newest()


def _patches(module: ModuleType) -> Iterable[Patch]:
    _PATCHED.add(module.__name__)
    trainer = module.Trainer
    yield Patch(module._LoggerConnector, "log_metrics", _OBSERVERS.after(_record_metrics, "log_metrics of Trainer"))
    yield Patch(trainer, "save_checkpoint", _OBSERVERS.after(_record_checkpoint, "Trainer.save_checkpoint"))
    for name in _METHODS:
        yield Patch(trainer, name, _with_marks(name))
    loggers = sys.modules[module.Logger.__module__.rpartition(".")[0]]
    for name in loggers.__all__:
        kind = getattr(loggers, name)
        if kind is not module.Logger:
            yield Patch(kind, "log_metrics", _OBSERVERS.after(_record_direct, f"log_metrics of {name}"))


def _loop_of(trainer: Any) -> _Loop:
    """Return the state of a Trainer, and remember that it is the newest one."""
    if _NEWEST.trainer() is trainer:
        return _NEWEST.loop
    loop = _LOOPS.get(trainer)
    if loop is None:
        loop = _LOOPS[trainer] = _Loop(trainer)
    _NEWEST.trainer, _NEWEST.loop = ref(trainer), loop
    return loop


def _is_ours(logger: Any) -> bool:
    return getattr(type(logger), "records_into_telemetry", False)


def _is_trial(trainer: Any) -> bool:
    """Return whether this is a trial run, or a search for a batch size or a rate. Lightning logs nothing then."""
    return bool(trainer.fast_dev_run) or any(type(each).__name__ == "DummyLogger" for each in trainer.loggers)


def _record_metrics(result: Any, connector: Any, metrics: Mapping[str, Any], step: int | None = None) -> None:
    trainer = connector.trainer
    loop = _loop_of(trainer)
    if not metrics or loop.is_silent(trainer):
        return
    if not loop.has_params:
        _record_params(trainer, loop)
    values = _numbers(metrics)
    if step is not None:
        telemetry.log(values, step=step, axis=loop.axes.axis(_evaluation(trainer, values), step))
        return
    own = values.pop("step", None)
    if own is None:
        if "epoch" not in values:
            values["epoch"] = float(trainer.current_epoch)
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
        axis = loop.axes.axis(DEFAULT_AXIS, step)
        _record_total(trainer, loop, axis)
        telemetry.log(values, step=step, axis=axis)
    else:
        record_own(values, int(own), loop.axes)


def _record_total(trainer: Any, loop: _Loop, axis: str) -> None:
    """Record how many steps the fit will take, once its data is loaded. A callback may change the number."""
    if trainer.state.fn != _FIT or not trainer.is_global_zero:
        return
    limits = [trainer.max_steps] if trainer.max_steps > 0 else []
    batches, epochs = trainer.num_training_batches, trainer.max_epochs
    if epochs is not None and epochs > 0 and math.isfinite(batches):
        limits.append(math.ceil(batches / trainer.accumulate_grad_batches) * epochs)
    expected = (axis, min(limits, default=0))
    if expected != loop.expected:
        loop.expected = expected
        record_total(expected[1], axis)


def _numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics with tensors as numbers, which is faster here than where values are logged."""
    try:
        return {name: value if type(value) is float else value.item() for name, value in metrics.items()}
    except Exception:  # noqa: BLE001 – not only tensors; a value that is not a number is refused alone
        return dict(metrics)


def _evaluation(trainer: Any, values: Mapping[str, Any]) -> str:
    """Return the count of evaluation steps: Lightning counts them for each dataloader."""
    stage = trainer.state.stage.value
    kind = "validation" if stage == "validate" else str(stage)
    _, separator, dataloader = next(iter(values)).rpartition(_DATALOADER)
    return f"{kind}_dataloader_{dataloader}" if separator and dataloader != "0" else kind


def _record_direct(result: Any, logger: Any, metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Record what a callback or a program gives to a logger itself, such as learning rates."""
    trainer = _NEWEST.trainer()
    if trainer is None or not metrics or _NEWEST.loop.is_silent(trainer):
        return
    axes = _NEWEST.loop.axes
    current = trainer.fit_loop.epoch_loop._batches_that_stepped
    if step is None or step == current:
        telemetry.log(dict(metrics), step=current, axis=axes.axis(DEFAULT_AXIS, current))
    else:
        record_own(metrics, step, axes)


def _record_params(trainer: Any, loop: _Loop) -> None:
    loop.has_params = True
    number = loop.axes.number
    if trainer.is_global_zero:
        params: dict[str, Any] = {}
        for holder in (trainer.lightning_module, trainer.datamodule):
            if getattr(holder, "_log_hyperparams", False):
                params.update(holder.hparams_initial)
        params.pop("_class_path", None)  # of Lightning's command line
        record_params(params, number)


def _record_checkpoint(
    result: Any, trainer: Any, filepath: str | os.PathLike[str], *more: Any, **options: Any
) -> None:
    loop = _loop_of(trainer)
    if loop.is_silent(trainer) or os.path.basename(filepath).startswith("."):  # a search keeps its start so
        return
    axis = loop.axes.current()
    if trainer.is_global_zero:
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
        telemetry.artifact("checkpoint", filepath, "model", step=step, axis=axis)


def _with_marks(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    what = f"Trainer.{name}"

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            _OBSERVERS.run(what, _record_beginning, name, trainer)
            try:
                result = original(trainer, *args, **kwargs)
            except BaseException as error:
                _OBSERVERS.run(what, _record_failure, name, trainer, error)
                raise
            _OBSERVERS.run(what, _record_end, name, trainer)
            return result

        return call

    return wrap


def _record_beginning(name: str, trainer: Any) -> None:
    if not _is_trial(trainer):
        axis = _loop_of(trainer).axes.current()
        if trainer.is_global_zero:
            telemetry.mark(f"{name} began", library="lightning", axis=axis)


def _record_end(name: str, trainer: Any) -> None:
    if not _is_trial(trainer):
        loop = _loop_of(trainer)
        if not loop.has_params and not loop.is_silent(trainer):
            _record_params(trainer, loop)
        if trainer.is_global_zero:
            telemetry.mark(f"{name} ended", library="lightning", axis=loop.axes.current())


def _record_failure(name: str, trainer: Any, error: BaseException) -> None:
    """Record why a fit failed, on each rank. Lightning ends the program after Ctrl-C."""
    if _is_trial(trainer):
        return
    axis = _loop_of(trainer).axes.current()
    if isinstance(error, SystemExit | KeyboardInterrupt):
        telemetry.mark(f"{name} was interrupted", library="lightning", axis=axis)
    else:
        reason = REDACTION.redactor.cut_text(f"{type(error).__name__}: {error}", _REASON_CHARS)
        telemetry.mark(f"{name} failed: {reason}", library="lightning", axis=axis)


def __getattr__(name: str) -> Any:
    if name != "TelemetryLogger":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from telemetry.integrations.lightning.logger import logger_class

    logger_type = globals()[name] = logger_class()
    return logger_type


_CAPTURE: Final = Capture(
    {"lightning.pytorch.trainer.trainer": _patches, "pytorch_lightning.trainer.trainer": _patches}, "lightning"
)
install = _CAPTURE.install
uninstall = _CAPTURE.uninstall


def is_installed() -> bool:
    """Return whether Lightning is captured, or will be once the program imports it."""
    return _CAPTURE.is_installed


def was_installed() -> bool:
    """Return whether Lightning is captured, or was captured before `uninstall`."""
    return bool(_PATCHED)
