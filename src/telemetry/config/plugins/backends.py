"""The table of built-in backends: their classes and requirements. `pyproject.toml` has the same entry points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class BuiltIn:
    value: str
    """The class as an entry point: `module:Class`. Importing the module does not import the tracker's library."""
    extra: str = ""
    """Extra of this package; empty if the backend needs no other package."""
    needs: tuple[str, ...] = ()
    """Modules of that extra that the backend needs to start."""


def _of(module: str, cls: str, *needs: str) -> BuiltIn:
    return BuiltIn(f"telemetry.backends.{module}:{cls}", module if needs else "", needs)


BUILT_IN: Final[dict[str, BuiltIn]] = {
    "aim": _of("aim", "AimBackend", "aim"),
    "clearml": _of("clearml", "ClearMLBackend", "clearml"),
    "console": _of("console", "ConsoleBackend"),
    "jsonl": _of("jsonl", "JsonlBackend"),
    "mlflow": _of("mlflow", "MLflowBackend", "mlflow"),
    "notify": _of("notify", "NotifyBackend", "apprise"),
    "otlp": _of("otlp", "OtlpBackend", "opentelemetry.proto"),
    "parquet": _of("parquet", "ParquetBackend", "pyarrow"),
    "prometheus": _of("prometheus", "PrometheusBackend"),
    "tensorboard": _of("tensorboard", "TensorBoardBackend", "tensorboard"),
    "timeline": BuiltIn("telemetry.backends.timeline.backend:TimelineBackend"),
    "trackio": _of("trackio", "TrackioBackend", "trackio"),
    "wandb": _of("wandb", "WandbBackend", "wandb"),
}
"""Name in `--to` → backend."""
