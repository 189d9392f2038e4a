"""The backends that come with the package: where each is, and what has to be installed for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class BuiltIn:
    value: str
    """As an entry point has it: `module:Class`. Importing the module imports no library of a tracker."""
    extra: str = ""
    """Of this package; empty: nothing else is needed."""
    needs: tuple[str, ...] = ()
    """Modules of that extra without which it can't begin."""


def _of(module: str, cls: str, *needs: str) -> BuiltIn:
    return BuiltIn(f"telemetry.backends.{module}:{cls}", module if needs else "", needs)


BUILT_IN: Final[dict[str, BuiltIn]] = {
    "aim": _of("aim", "AimBackend", "aim"),
    "clearml": _of("clearml", "ClearMLBackend", "clearml"),
    "console": _of("console", "ConsoleBackend"),
    "jsonl": _of("jsonl", "JsonlBackend"),
    "mlflow": _of("mlflow", "MLflowBackend", "mlflow"),
    "otlp": _of("otlp", "OtlpBackend", "opentelemetry.proto"),
    "prometheus": _of("prometheus", "PrometheusBackend"),
    "tensorboard": _of("tensorboard", "TensorBoardBackend", "tensorboard"),
    "trackio": _of("trackio", "TrackioBackend", "trackio"),
    "wandb": _of("wandb", "WandbBackend", "wandb"),
}
"""By the name that `--to` knows them by."""
