"""The artifacts of an experiment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.compat.tracelet.core.artifacts import ArtifactResult, ArtifactType, TraceletArtifact, kind_of
from telemetry.compat.tracelet.core.metrics import MetricData, MetricType

if TYPE_CHECKING:
    from telemetry.compat.tracelet.core.experiment import Experiment

_RUN = "telemetry"


class ArtifactLog:
    """A recorder of artifacts that remembers them. Files are recorded by reference and have to stay."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._logged: list[TraceletArtifact] = []

    def log(
        self, artifact: TraceletArtifact | str | os.PathLike[str], artifact_path: str | None
    ) -> dict[str, ArtifactResult]:
        """Record a file or an artifact and return where it goes, by backend."""
        if isinstance(artifact, TraceletArtifact):
            return self._log_artifact(artifact)
        path = Path(artifact)
        name = artifact_path or path.name
        name = f"{name}{path.name}" if name.endswith("/") else name
        made = TraceletArtifact(name, kind_of(path.name))
        self._record(name, str(path), made.type.value)
        made.size_bytes = path.stat().st_size if path.is_file() else 0
        return self._results(made, str(path.absolute()))

    def get(self, name: str, version: str, backend: str | None) -> TraceletArtifact | None:
        """Return an artifact of this experiment, or None."""
        found = [one for one in self.list(None, backend) if one.name == name and version in ("latest", one.version)]
        return found[-1] if found else None

    def list(self, type_filter: ArtifactType | None, backend: str | None) -> list[TraceletArtifact]:
        """Return the artifacts of this experiment, the oldest first."""
        if backend not in (None, _RUN, *self._experiment.active_backends):
            return []
        return [one for one in self._logged if type_filter in (None, one.type)]

    def _log_artifact(self, artifact: TraceletArtifact) -> dict[str, ArtifactResult]:
        kind = artifact.type.value
        paths = [(file.artifact_path, file.local_path) for file in artifact.files]
        if artifact.objects:
            folder = str(Path(self._experiment.recorder.directory or ".", "artifacts", _file_name(artifact.name)))
            paths += [(one.name, artifact.serialize_object(one, folder)) for one in artifact.objects]
        paths += [(f"reference-{number}", one.uri) for number, one in enumerate(artifact.references, 1)]
        for name, path in paths:
            self._record(f"{artifact.name}/{name}", path, kind)
        if facts := artifact.facts():
            self._experiment.log_params({f"artifacts.{artifact.name}": facts})
        return self._results(artifact, paths[0][1] if paths else "")

    def _record(self, name: str, path: str, kind: str) -> None:
        experiment = self._experiment
        experiment.recorder.artifact(name, path, kind)
        if experiment.has_sinks:
            experiment.route(MetricData(name, path, MetricType.ARTIFACT, metadata={"artifact_path": name}))

    def _results(self, artifact: TraceletArtifact, uri: str) -> dict[str, ArtifactResult]:
        count = sum(one.name == artifact.name for one in self._logged) + 1
        artifact.version = f"v{count}"
        self._logged.append(artifact)
        names: list[Any] = self._experiment.active_backends or [_RUN]
        return {name: ArtifactResult(artifact.version, uri, artifact.size_bytes, name) for name in names}


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
