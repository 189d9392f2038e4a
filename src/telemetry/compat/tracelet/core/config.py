"""Switches of one experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from telemetry.compat.tracelet.settings import TraceletSettings


@dataclass
class ExperimentConfig:
    """Switches of one experiment. Each has the effect that docs/migrating/TRACELET.md describes."""

    track_metrics: bool = True
    track_environment: bool = True
    track_args: bool = True
    track_stdout: bool = True
    track_checkpoints: bool = True
    track_system_metrics: bool = True
    track_git: bool = True
    enable_automagic: bool = False
    automagic_frameworks: set[str] | None = None
    enable_artifacts: bool = False
    automagic_artifacts: bool = False
    artifact_watch_dirs: list[str] | None = None
    watch_filesystem: bool = False

    @classmethod
    def of(cls, settings: TraceletSettings) -> Self:
        """Return the switches that settings have."""
        own = {"track_environment": settings.track_env, "track_system_metrics": settings.track_system}
        values: dict[str, Any] = {name: getattr(settings, name, None) for name in cls.__dataclass_fields__}
        return cls(**{**values, **own})
