"""What the captures of Lightning and transformers add to a logged step, beside Lightning's own call."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

_CALLS: Final = 2_000
_ROUNDS: Final = 15
_VALUES: Final = 5
_PAUSE_S: Final = 0.06  # longer than the interval of the flusher, which empties the buffer


def measure(calls: int = _CALLS, rounds: int = _ROUNDS) -> dict[str, float]:
    """Return nanoseconds of the caller's thread per logged step of five values, by name: the best of all rounds.

    `added` is what a call takes longer with the capture, for a Trainer without a logger. The same call of Lightning
    with one logger, which does nothing, is beside it. A run with an aggregator of its own is open all the time.
    """
    import telemetry

    os.environ.pop("TELEMETRY_ENDPOINT", None)
    folder = tempfile.mkdtemp(prefix="tm")
    try:
        with telemetry.start("lightning", dir=folder):
            return _measured(calls, rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(calls: int, rounds: int) -> dict[str, float]:
    torch = import_module("torch")
    floats = {f"train/metric_{n}": 0.37 * n for n in range(_VALUES)}
    forms = {"floats": floats, "tensors": {name: torch.tensor(value) for name, value in floats.items()}}
    capture = import_module("telemetry.integrations.lightning")
    best: dict[str, float] = {}

    def note(name: str, task: Callable[[int], None]) -> None:
        started = time.thread_time_ns()
        task(calls)
        best[name] = min(best.get(name, float("inf")), (time.thread_time_ns() - started) / calls)
        time.sleep(_PAUSE_S)

    bare = {form: _lightning(values, []) for form, values in forms.items()}
    logging = {form: _lightning(values, [_Logger()]) for form, values in forms.items()}
    on_log = _transformers(floats)
    for _ in range(rounds):
        for form in forms:
            capture.uninstall()
            note(f"bare, {form}", bare[form])
            note(f"Lightning with one logger, {form} ns", logging[form])
            capture.install()
            note(f"captured, {form}", bare[form])
        note("transformers added, floats ns", on_log)
    capture.uninstall()
    for form in forms:
        best[f"Lightning added, {form} ns"] = best.pop(f"captured, {form}") - best.pop(f"bare, {form}")
    return best


class _Logger:
    """A logger that does nothing."""

    def log_metrics(self, metrics: object, step: int) -> None: ...

    def save(self) -> None: ...


class _Trainer:
    """What the logger connector needs of a Trainer."""

    def __init__(self, loggers: list[_Logger]) -> None:
        self.loggers = loggers
        self.fast_dev_run = False
        self.current_epoch = 0
        self.is_global_zero = True
        self.lightning_module = self.datamodule = None
        self.fit_loop = SimpleNamespace(epoch_loop=SimpleNamespace(_batches_that_stepped=0))


def _lightning(values: dict[str, Any], loggers: list[_Logger]) -> Callable[[int], None]:
    """Return a loop over Lightning's own function, which the capture wraps."""
    connector = import_module("lightning.pytorch.trainer.trainer")._LoggerConnector(_Trainer(loggers))
    epoch_loop = connector.trainer.fit_loop.epoch_loop

    def run(calls: int) -> None:
        for _ in range(calls):
            epoch_loop._batches_that_stepped += 1
            connector.log_metrics(values)

    return run


def _transformers(values: dict[str, Any]) -> Callable[[int], None]:
    """Return a loop over the event that transformers sends for each logged step."""
    capture = import_module("telemetry.integrations.transformers")
    capture.install()
    trainer = import_module("transformers.trainer")
    callback = trainer.DEFAULT_CALLBACKS[-1]()
    capture.uninstall()
    state = SimpleNamespace(global_step=0, is_world_process_zero=True)
    logs = {**values, "epoch": 0.5}

    def run(calls: int) -> None:
        for _ in range(calls):
            state.global_step += 1
            callback.on_log(None, state, None, logs=logs)

    return run


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:40} {value:9,.0f}")
