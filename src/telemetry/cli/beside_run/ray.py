"""The root of a run on a Ray cluster, whose driver is the command of `telemetry run --ray`."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.integrations.ray.keys import KEYS_VARIABLE, own_pair

_LISTEN: Final = "tcp://0.0.0.0:*"


class RayRoot(Participant):
    """Settings of an aggregator that leaves on all nodes of a cluster reach, or none of them.

    A context manager: it makes the keys of the run, which this process uses as well, and removes them.
    """

    def __init__(self, *, wanted: bool) -> None:
        """Make the keys if `wanted`. Raises KeysError."""
        self.wanted = wanted
        self._files = ExitStack()
        if wanted:
            before = os.environ.get(KEYS_VARIABLE)
            folder = self._files.enter_context(tempfile.TemporaryDirectory(prefix="telemetry-ray-"))
            self._files.callback(_restore, before)
            own_pair(Path(folder))

    @property
    def flags(self) -> dict[str, object]:
        if not self.wanted:
            return {}
        keys_dir = os.environ[KEYS_VARIABLE]
        return {"transport.bind": _LISTEN, "security.curve": "always", "security.keys_dir": keys_dir}

    def begin(self, run: BegunRun) -> dict[str, str]:
        """Return environment variables that make `ray.init` of the command place the leaves."""
        if not self.wanted:
            return {}
        from telemetry.integrations.ray import auto

        keys = {KEYS_VARIABLE: os.environ[KEYS_VARIABLE]}
        endpoint = run.endpoint.replace("0.0.0.0", "127.0.0.1", 1)
        return {"TELEMETRY_ENDPOINT": endpoint, **keys, **auto.variables(run.name)}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(KEYS_VARIABLE, None)
    else:
        os.environ[KEYS_VARIABLE] = before
