"""PyTorch: what `SummaryWriter` and `torch.save` get, and the learning rates of optimizers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from telemetry.client import module_level as client
from telemetry.client.process import PROCESS
from telemetry.compat.tracelet.core.artifacts import kind_of
from telemetry.compat.tracelet.core.interfaces import MetricData, MetricType
from telemetry.compat.tracelet.frameworks.lightning import CapturedFramework, Stop
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Function, Observers, Patch
from telemetry.integrations.tensorboard.values import argument_names

_OBSERVERS: Final = Observers("tracelet")
_KINDS: Final = (
    *("scalar", "scalars", "histogram", "image", "text", "figure", "video", "audio"),
    *("mesh", "embedding", "hparams"),
)
"""Ends of the names of SummaryWriter's methods. Each is a type of metrics, `scalars` are of the type scalar."""


class PyTorchFramework(CapturedFramework):
    """The integration of PyTorch's SummaryWriter. Backends of the user get the same metrics as the run."""

    name = "pytorch"
    capture = "tensorboard"

    def __init__(self, patch_tensorboard: bool = True) -> None:
        super().__init__()
        self._patch_tensorboard = patch_tensorboard
        self._capture: Capture | None = None

    def start_tracking(self) -> None:
        """Begin to record what writers get, unless patching is switched off. A second call has no effect."""
        if not self._patch_tensorboard:
            return
        super().start_tracking()
        experiment = self._experiment
        is_first = experiment is not None and experiment.frameworks.setdefault(self.name, self) is self
        if self._capture is None and is_first:
            self._capture = Capture({"torch.utils.tensorboard.writer": self._patches})
            self._capture.install()

    def stop_tracking(self) -> None:
        """Restore SummaryWriter."""
        if self._capture is not None:
            self._capture.uninstall()
            self._capture = None
        super().stop_tracking()

    def log_enhanced_metric(
        self,
        name: str,
        value: Any,
        metric_type: MetricType | str,
        iteration: int | None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Log a value of any type. Any other word for a type, such as "accuracy", means a number."""
        experiment = self._experiment
        if experiment is None:
            return
        if isinstance(metric_type, str) and metric_type not in [kind.value for kind in MetricType]:
            experiment.log_metric(name, value, iteration)
            if metadata:
                experiment.log_params({f"{name}.{key}": entry for key, entry in metadata.items()})
            return
        source, kind = experiment.get_source_id(), MetricType(metric_type)
        experiment.emit_metric(MetricData(name, value, kind, iteration, source=source, metadata=metadata))

    def _patches(self, module: ModuleType) -> Iterable[Patch]:
        methods = [(f"add_{kind}", MetricType("scalar" if kind == "scalars" else kind)) for kind in _KINDS]
        writer = module.SummaryWriter
        return [Patch(writer, name, self._wrap(name, kind)) for name, kind in methods if hasattr(writer, name)]

    def _wrap(self, method: str, kind: MetricType) -> Callable[[Function], Function]:
        """Return the `wrap` of a patch that passes the arguments of a method on to backends of the user."""

        def wrap(original: Function) -> Function:
            names = argument_names(original, method)
            value_name = next(name for name in names if name not in ("tag", "main_tag"))

            def observe(_: Any, __: Any, *args: Any, **kwargs: Any) -> None:
                experiment = self._experiment
                if experiment is None or PROCESS.state == "finished":
                    return
                given = {**dict(zip(names, args, strict=False)), **kwargs}
                tag = given.get("main_tag", given.get("tag", "default"))
                value, step = given[value_name], given.get("global_step")
                parts = value.items() if isinstance(value, dict) and kind is MetricType.SCALAR else [("", value)]
                for part, part_value in parts:
                    name = "hparams" if kind is MetricType.HPARAMS else f"{tag}/{part}" if part else tag
                    experiment.route(name, part_value, kind, step)

            return _OBSERVERS.after(observe, f"SummaryWriter.{method}")(original)

        return wrap


# --- checkpoints -----------------------------------------------------------------------------------


def _saved(_: Any, __: Any, target: Any = None, *args: Any, **kwargs: Any) -> None:
    path = kwargs.get("f", kwargs.get("filepath", target))
    if isinstance(path, (str, os.PathLike)):
        client.artifact(Path(path).stem, path, kind_of(os.fspath(path)).value)


def _saved_by_trainer(result: Any, trainer: Any, *args: Any, **kwargs: Any) -> None:
    """Record a checkpoint of Lightning, unless the capture of Lightning does it. The first rank records."""
    capture = sys.modules.get("telemetry.integrations.lightning")
    if trainer.is_global_zero and not (capture is not None and capture.is_installed()):
        _saved(result, trainer, *args, **kwargs)


def _save_patches(module: ModuleType) -> list[Patch]:
    if module.__name__ == "torch":
        return [Patch(module, "save", _OBSERVERS.after(_saved, "torch.save"))]
    return [
        Patch(module.Trainer, "save_checkpoint", _OBSERVERS.after(_saved_by_trainer, "Trainer.save_checkpoint"))
    ]


CHECKPOINTS: Final = Capture(dict.fromkeys(("torch", "lightning.pytorch", "pytorch_lightning"), _save_patches))
"""A capture of the files that torch.save and trainers of Lightning write."""


def watch_learning_rates(log: Callable[[str, Any, int], object]) -> Stop:
    """Log `lr_group_N` at every optimizer step of torch, if torch is loaded."""
    register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
    if register is None:
        return lambda: None
    steps = count()

    def record(optimizer: Any) -> None:
        step = next(steps)
        for index, group in enumerate(optimizer.param_groups):
            log(f"lr_group_{index}", group.get("lr", 0.0), step)

    remove: Stop = register(lambda optimizer, *_: _OBSERVERS.run("optimizer.step", record, optimizer)).remove
    return remove
