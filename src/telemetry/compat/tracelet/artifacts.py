"""The artifacts of `core.artifacts` under a shorter path."""

from telemetry.compat.tracelet.core.artifacts import ArtifactResult, ArtifactType, TraceletArtifact

__all__ = ["ArtifactResult", "ArtifactType", "TraceletArtifact"]
