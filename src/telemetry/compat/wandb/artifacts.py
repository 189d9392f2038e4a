"""Artifacts: named sets of files, which are recorded by reference."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from telemetry.compat.wandb.errors import UsageError
from telemetry.compat.wandb.media import FOLDERS, Media
from telemetry.compat.wandb.tables import Table


class Artifact:
    """A set of files. They are not copied, so they have to stay where they are."""

    def __init__(  # noqa: PLR0917 – W&B's signature
        self,
        name: str,
        type: str,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        incremental: bool = False,
        use_as: str | None = None,
        **_more: Any,
    ) -> None:
        self.name = name
        self.type = type
        self.description = description
        self.metadata = dict(metadata or {})
        self.aliases: list[str] = []
        self.files_by_name: dict[str, str] = {}
        """Path or URI of each file, by its name in the artifact. An empty name stands for the whole."""

    def add_file(self, local_path: str | os.PathLike[str], name: str | None = None, **_options: Any) -> None:
        """Add a file. Raise ValueError if there is none."""
        if not os.path.isfile(local_path):
            raise ValueError(f"{os.fspath(local_path)!r} is not a file")
        self._add(local_path, name)

    def add_dir(self, local_path: str | os.PathLike[str], name: str | None = None, **_options: Any) -> None:
        """Add a folder. Raise ValueError if there is none."""
        if not os.path.isdir(local_path):
            raise ValueError(f"{os.fspath(local_path)!r} is not a folder")
        self.files_by_name[name or ""] = os.path.abspath(local_path)

    def add_reference(self, uri: str, name: str | None = None, **_options: Any) -> None:
        """Add a file by its URI."""
        self.files_by_name[str(name or os.path.basename(uri.rstrip("/")))] = uri

    def add(self, obj: Any, name: str, overwrite: bool = False) -> None:
        """Add the file of a data type. Raise UsageError for another object."""
        path = obj._path if isinstance(obj, Media) else None
        if path is None:
            if isinstance(obj, Table):
                raise UsageError("a table can't be part of an artifact here: log it with wandb.log")
            raise UsageError(f"{type(obj).__name__} has no file: add the path of a file with add_file")
        self.files_by_name[name] = os.path.abspath(path)

    @contextmanager
    def new_file(
        self, name: str, mode: str = "w", encoding: str | None = None, **_options: Any
    ) -> Iterator[IO[Any]]:
        """Open a new file of the artifact for writing. It lies in the folder of the run."""
        path = Path(FOLDERS.of_run()) / "artifacts" / self.name / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode.replace("x", "w"), encoding=encoding) as file:
            yield file
        self.files_by_name[name] = str(path)

    def wait(self, timeout: float | None = None) -> Artifact:
        """Return the artifact at once: nothing is uploaded."""
        return self

    def _add(self, path: str | os.PathLike[str], name: str | None) -> None:
        self.files_by_name[name or os.path.basename(path)] = os.path.abspath(path)
