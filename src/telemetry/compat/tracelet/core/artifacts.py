"""Artifacts: files, references and small objects under one name. They are recorded by reference."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, Self

from telemetry.client import user_warnings
from telemetry.compat.tracelet.exceptions import BackendError


class ArtifactType(Enum):
    """Kinds of artifacts."""

    MODEL = "model"
    CHECKPOINT = "checkpoint"
    WEIGHTS = "weights"
    DATASET = "dataset"
    SAMPLE = "sample"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    VISUALIZATION = "viz"
    REPORT = "report"
    CONFIG = "config"
    CODE = "code"
    CUSTOM = "custom"


@dataclass
class ArtifactFile:
    """A file of an artifact."""

    local_path: str
    artifact_path: str
    description: str | None = None
    size_bytes: int = 0
    checksum: str | None = None


@dataclass
class ArtifactReference:
    """A URI of an artifact."""

    uri: str
    size_bytes: int | None = None
    description: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class ArtifactObject:
    """An object of Python that becomes a file."""

    obj: Any
    name: str
    serializer: str = "json"
    description: str | None = None


@dataclass
class ModelInfo:
    """A model of an artifact. Only facts about it are recorded."""

    model: Any
    framework: str
    input_example: Any = None
    signature: Any = None
    description: str | None = None


@dataclass
class ArtifactResult:
    """The place of a logged artifact at one backend."""

    version: str
    uri: str
    size_bytes: int
    backend: str
    metadata: dict[str, Any] = field(default_factory=dict)


_KINDS: Final = {
    ArtifactType.MODEL: "pt pth safetensors onnx",
    ArtifactType.CHECKPOINT: "ckpt",
    ArtifactType.IMAGE: "png jpg jpeg gif bmp",
    ArtifactType.AUDIO: "wav mp3 flac ogg",
    ArtifactType.VIDEO: "mp4 avi mov mkv",
    ArtifactType.CONFIG: "yaml yml json toml",
    ArtifactType.REPORT: "html pdf md",
    ArtifactType.CODE: "py js cpp java",
}
_KIND_OF: Final = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()}
_FRAMEWORKS: Final = {
    "lightning": "pytorch_lightning",
    "torch": "pytorch",
    "sklearn": "sklearn",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "xgboost": "xgboost",
}
"""Parts of the names of modules, and the framework that each means."""
_NO_PICKLE: Final = 'use serializer="json" or "yaml", or save the object to a file and call add_file'


def kind_of(path: str) -> ArtifactType:
    """Return the kind of a file, judged by its name."""
    file = Path(path)
    kind = _KIND_OF.get(file.suffix[1:].lower(), ArtifactType.CUSTOM)
    return ArtifactType.CHECKPOINT if kind is ArtifactType.MODEL and "checkpoint" in file.name.lower() else kind


class TraceletArtifact:
    """An artifact in the making. Every `add_` method returns the artifact."""

    def __init__(
        self,
        name: str,
        artifact_type: ArtifactType,
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.type = artifact_type
        self.description = description
        self.metadata = metadata or {}
        self.version: str | None = None
        self.size_bytes = 0
        self.created_at = time.time()
        self.files: list[ArtifactFile] = []
        self.references: list[ArtifactReference] = []
        self.objects: list[ArtifactObject] = []

    def add_file(
        self, local_path: str | Path, artifact_path: str | None = None, description: str | None = None
    ) -> Self:
        """Add a file. Raise FileNotFoundError if it is not there."""
        path = Path(local_path)
        if not path.exists():
            raise FileNotFoundError(f"no such file: {local_path}")
        size = path.stat().st_size
        self.files.append(ArtifactFile(str(path), artifact_path or path.name, description, size))
        self.size_bytes += size
        return self

    def add_reference(
        self,
        uri: str,
        size_bytes: int | None = None,
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """Add a URI."""
        self.references.append(ArtifactReference(uri, size_bytes, description, metadata or {}))
        self.size_bytes += size_bytes or 0
        return self

    def add_object(self, obj: Any, name: str, serializer: str = "json", description: str | None = None) -> Self:
        """Add an object that `json` or `yaml` can write. Raise BackendError for `pickle`."""
        if serializer == "pickle":
            raise BackendError("pickled objects are refused: whoever reads one runs its code", hint=_NO_PICKLE)
        self.objects.append(ArtifactObject(obj, name, serializer, description))
        return self

    def add_model(
        self,
        model: Any,
        framework: str | None = None,
        input_example: Any = None,
        signature: Any = None,
        description: str | None = None,
    ) -> Self:
        """Add facts about a model. Its weights are not written; save them and call `add_file`.

        Raises ValueError for an artifact of another type.
        """
        if self.type.value not in ("model", "checkpoint", "weights"):
            raise ValueError("add_model needs an artifact of the type MODEL, CHECKPOINT or WEIGHTS")
        if not framework:
            modules = {cls.__module__ for cls in type(model).__mro__}
            names = (name for part, name in _FRAMEWORKS.items() if any(part in module for module in modules))
            framework = next(names, "unknown")
        self.metadata["model_info"] = ModelInfo(model, framework, input_example, signature, description)
        if not self.files:
            user_warnings.warn(
                f"the artifact {self.name!r} gets facts about the model, not its weights: save them, add_file"
            )
        return self

    def serialize_object(self, obj_info: ArtifactObject, temp_dir: str) -> str:
        """Write an object to a file and return its path."""
        if obj_info.serializer == "json":
            text = json.dumps(obj_info.obj, indent=2, default=str)
        elif obj_info.serializer == "yaml":
            import yaml  # type: ignore[import-untyped]

            text = yaml.safe_dump(obj_info.obj)
        else:
            raise BackendError(f"the serializer {obj_info.serializer!r} is refused or unknown", hint=_NO_PICKLE)
        path = Path(temp_dir, f"{obj_info.name}.{obj_info.serializer}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def to_dict(self) -> dict[str, Any]:
        """Return the artifact as a dictionary, without the contents of files and objects."""
        names = ("name", "description", "metadata", "size_bytes", "created_at")
        shown: dict[str, Any] = {name: getattr(self, name) for name in names} | {"type": self.type.value}
        for name in ("files", "references", "objects"):
            parts = map(vars, getattr(self, name))
            shown[name] = [{key: part[key] for key in part if key not in ("checksum", "obj")} for part in parts]
        return shown

    def parts(self, folder: str) -> list[tuple[str, str]]:
        """Return name and place of each part. Objects are written below the `folder` first."""
        files = [(file.artifact_path, file.local_path) for file in self.files]
        objects = [(each.name, self.serialize_object(each, folder)) for each in self.objects]
        return files + objects + [(f"reference-{index}", each.uri) for index, each in enumerate(self.references, 1)]

    def facts(self) -> dict[str, Any]:
        """Return description and metadata as settings."""
        facts = {"description": self.description} if self.description else {}
        facts |= self.metadata
        if isinstance(info := facts.pop("model_info", None), ModelInfo):
            facts["model"] = {"class": type(info.model).__qualname__, "framework": info.framework}
        return facts
