"""A W&B run as a source of a telemetry run: the one place where its calls become records."""

from __future__ import annotations

import atexit
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from telemetry import limits
from telemetry.client import module_level as client
from telemetry.client import user_warnings
from telemetry.client.process import PROCESS
from telemetry.client.step_axes import SHARED
from telemetry.integrations.loop_axes import record_total
from telemetry.integrations.wandb.rules import LoggedPart, LoggedRows
from telemetry.integrations.wandb.values import are_numbers, flat, put, put_settings

_NAME: Final = "wandb"
_TOTALS: Final = ("max_steps", "total_steps")
"""Names in a config for the number of steps of a training."""
_turns: Final[Counter[str]] = Counter()
"""Number of W&B runs so far, by producer of this process."""


class WandbSource:
    """A recorder of one W&B run. Thread-safe.

    The second W&B run that a process has in a telemetry run counts its steps from 0 again. So it gets axes of its
    own: `step 2`.
    """

    def __init__(
        self, facts: Mapping[str, Any], config: Mapping[str, Any], *, step: int = 0, keeps_summary: bool = False
    ) -> None:
        """Record the config, and facts about the W&B run such as its name. Begin at a step of W&B."""
        if PROCESS.state == "idle":
            PROCESS.attach_by_itself()  # W&B runs are counted by producer
        producer = "" if PROCESS.flusher is None else PROCESS.flusher.outbox.producer
        _turns[producer] += 1
        turn = _turns[producer]
        suffix = "" if turn == 1 else f" {turn}"
        put_settings({f"wandb{suffix}": {name: value for name, value in facts.items() if value}})
        if config:
            put_settings(config)
        self._total: object = next((config[name] for name in _TOTALS if config.get(name)), None)
        """Number of steps that the program will take, until it is recorded with the first axis."""
        self._summary_group = f"summary{suffix}"
        self._rows = LoggedRows(step, suffix=suffix, keeps_summary=keeps_summary, say=user_warnings.warn)
        self.define: Callable[..., None] = self._rows.define
        self._pid = os.getpid()
        self._closed = False
        atexit.register(self.close)  # runs before the exit of the client, which was registered earlier

    @property
    def step(self) -> int:
        return self._rows.step

    @property
    def summary(self) -> dict[str, Any]:
        return self._rows.summary

    def log(self, data: Mapping[str, Any], step: Any = None, commit: bool | None = None) -> None:
        """Record a call of `wandb.log`. Raise TypeError for a step that is no integer."""
        rows = self._rows
        if step is None and commit is None and are_numbers(data):
            at = rows.whole_row(data)
            if at is not None:
                axis = SHARED.place(_NAME, rows.axis, at)
                self._record_total(axis)
                client.log(data, step=at, axis=axis)
                return
        for part in rows.log(flat(data), step, commit):
            self._record_total(part.axis)
            _put(part)

    def _record_total(self, axis: str) -> None:
        if self._total is not None:
            record_total(self._total, axis)
            self._total = None

    def set_summary(self, values: Mapping[str, Any]) -> None:
        """Record values of the summary that the program set itself."""
        put_settings({self._summary_group: values})

    def put_artifact(self, name: str, kind: str, files: Mapping[str, str]) -> None:
        """Record the files of a W&B artifact by reference. `files` maps names in the artifact to paths or URIs."""
        for inner, path in files.items():
            client.artifact(f"{name}/{inner}" if inner else name, path, kind=kind[: limits.UNIT_CHARS])

    def close(self, exit_code: int | None = None) -> None:
        """Record what still waits, and the summaries that were asked for. A second call has no effect."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        for part in self._rows.close():
            _put(part)
        if summary := self._rows.defined_summary():
            self.set_summary(summary)
        if exit_code:
            client.mark(f"the W&B run ended with exit code {exit_code}")


def _put(part: LoggedPart) -> None:
    """Record the values of a step, on an axis where steps of other sources leave room for it."""
    axis = SHARED.place(_NAME, part.axis, part.step)
    put(part if axis == part.axis else part._replace(axis=axis))
