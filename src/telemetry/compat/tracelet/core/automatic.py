"""Captures and facts that an experiment records by itself, each behind a setting."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from telemetry.client import module_level as client
from telemetry.client import user_warnings
from telemetry.client.redaction import REDACTION
from telemetry.compat.tracelet.core.artifacts import kind_of
from telemetry.errors import error_text
from telemetry.integrations.capture.boot_module import BOOT
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch

_OBSERVERS: Final = Observers("tracelet")

Stop = Callable[[], object]


def environment() -> dict[str, Any]:
    """Return facts of the machine and the interpreter, as settings."""
    return {
        "environment.python": platform.python_version(),
        "environment.platform": platform.platform(),
        "environment.hostname": platform.node(),
        "environment.cpus": os.cpu_count(),
    }


def arguments() -> dict[str, Any]:
    """Return the command line of the program, as settings, without its secrets."""
    return {"args": " ".join(REDACTION.redactor.arguments(sys.argv))}


class Shared:
    """A capture that several experiments of the process may hold. The last one to release it removes it."""

    def __init__(self, load: Callable[[], Any]) -> None:
        """`load` returns what has `install` and `uninstall`."""
        self._load = load
        self._holders = 0
        self._lock = threading.Lock()

    def hold(self) -> Stop:
        """Install the capture. Return the function that releases it; call that once."""
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                try:
                    self._load().install()
                except Exception as error:  # noqa: BLE001 – a capture must not stop the program
                    user_warnings.warn(f"a capture can't be installed: {error_text(error)}")
        return self._release

    def _release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._load().uninstall()


_INTEGRATIONS: Final = {
    "tensorboard": Shared(lambda: import_module("telemetry.integrations.tensorboard")),
    "lightning": Shared(lambda: import_module("telemetry.integrations.lightning")),
}


def hold_integration(name: str) -> Stop:
    """Install the capture of a framework. Leave it alone if `telemetry run --capture` has installed it."""
    return (lambda: None) if name in BOOT.PREPARED else _INTEGRATIONS[name].hold()


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


def _torch_save(module: ModuleType) -> Iterable[Patch]:
    return [Patch(module, "save", _OBSERVERS.after(_saved, "torch.save"))]


def _trainer_save(module: ModuleType) -> Iterable[Patch]:
    save = "save_checkpoint"
    return [Patch(module.Trainer, save, _OBSERVERS.after(_saved_by_trainer, f"Trainer.{save}"))]


_CHECKPOINTS: Final = Capture(
    {"torch": _torch_save, "lightning.pytorch": _trainer_save, "pytorch_lightning": _trainer_save}
)
CHECKPOINTS: Final = Shared(lambda: _CHECKPOINTS)
"""A capture of the files that torch.save and trainers of Lightning write."""


# --- learning rates --------------------------------------------------------------------------------


def watch_learning_rates(log: Callable[[str, Any, int], object]) -> Stop:
    """Log `lr_group_N` at every optimizer step of torch, if torch is loaded."""
    register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
    if register is None:
        return lambda: None
    steps = [0]

    def record(optimizer: Any, *_: Any) -> None:
        for index, group in enumerate(optimizer.param_groups):
            log(f"lr_group_{index}", group.get("lr", 0.0), steps[0])
        steps[0] += 1

    remove: Stop = register(lambda optimizer, *_: _OBSERVERS.run("optimizer.step", record, optimizer)).remove
    return remove
