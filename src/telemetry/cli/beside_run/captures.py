"""Captures of a wrapped command: its environment, and messages about what could not be captured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.common import distribution
from telemetry.common.files import opener
from telemetry.common.formatting import printable
from telemetry.compat.stand_ins import STAND_INS, check_stand_ins
from telemetry.integrations.capture.boot_module import BOOT, BOOT_FOLDER
from telemetry.integrations.capture.capture_log import SIGNS, not_imported, read_signs
from telemetry.integrations.capture.captures import check_captures, plugin_variable
from telemetry.report.brief import has_data
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

if TYPE_CHECKING:
    from telemetry.cli.wrapped.command import Job

_NO_SIGN_S: Final = 10.0
"""Time after which a missing sign is reported although the command still runs."""
_SHOWN: Final = 5


class Captures(Participant):
    """The captures and stand-ins of one command."""

    def __init__(
        self,
        captures: Sequence[str],
        stand_ins: Sequence[str],
        say: Callable[[str], object],
        *,
        recorders: Sequence[Participant] = (),
        is_reported: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the names. Raises UsageError for an unknown one, or one of another package that can't be loaded.

        `recorders` have processes that record beside the command. `is_reported`: a report follows.
        """
        self._names = list(dict.fromkeys(name for text in captures for name in check_captures(text)))
        self._plugins = plugin_variable(self._names)
        self._stand_ins = check_stand_ins(stand_ins)
        self._say = say
        self._now = now
        self._directory = ""
        self._begun_s = now()
        self._warned = False
        self._recorders = recorders
        self._is_reported = is_reported
        self._has_command = False
        self._failed = False

    @property
    def failed(self) -> bool:
        """True once the command ended and, as far as signs and producers show, no library was captured."""
        return self._failed

    def begin(self, run: BegunRun) -> dict[str, str]:
        """Return the variables with which Python of the command captures."""
        directory = self._directory = run.directory
        self._begun_s = self._now()
        folders = [BOOT_FOLDER] if self._names else []
        folders += [STAND_INS[name] for name in self._stand_ins]
        if not folders:
            return {}
        before = os.environ.get("PYTHONPATH")
        variables = {"PYTHONPATH": os.pathsep.join([*folders, *([before] if before else [])])}
        if self._names:
            variables[BOOT.VARIABLE] = ",".join(self._names)
            variables |= {BOOT.PLUGINS_VARIABLE: self._plugins} if self._plugins else {}
            path = Path(directory) / SIGNS
            variables[BOOT.SIGNS_VARIABLE] = str(path.absolute())
            with (
                suppress(OSError),
                open(path, "a", opener=opener(depth=1)) as file,
            ):  # else the report knows of no captures
                file.write(f"{os.getpid()} wanted {','.join(self._names)}\n")
        return variables

    def accompany(self, job: Job) -> None:
        self._has_command = True

    def look(self, snapshot: MetricsSnapshot | None) -> None:
        """Warn once if the command has run for a while and no process of it reported."""
        if self._names and not self._warned and self._now() - self._begun_s > _NO_SIGN_S:
            self._warned = True
            if not read_signs(self._directory).booted:
                self._say_nothing_came()

    def conclude(self, report: Report) -> Report:
        """Say what was not captured."""
        if self._names and self._has_command:
            is_in_report = self._is_reported and not has_data(report.snapshot)
            self._say_what_is_missing(report.snapshot.producers, in_report=is_in_report)
        return report

    def _say_what_is_missing(self, producers: Sequence[ProducerStat], *, in_report: bool) -> None:
        """Say what was not captured. `in_report`: the report names the libraries that were not imported.

        Signs of another host or of a container may be missing. So if no sign tells why nothing was captured,
        producers that can be such processes count as captured.
        """
        recorders = {pid for each in self._recorders for pid in each.pids}
        signs = read_signs(self._directory)
        here = os.uname().nodename
        unseen = any(
            each.emitted > 0 and (each.host != here or not (signs.booted or each.pid in recorders))
            for each in producers
        )
        reasons = bool(signs.absent or signs.hidden or signs.failed)
        self._failed = not signs.hooked and (reasons or not unseen)
        if not signs.booted:
            if not self._warned:
                self._say_nothing_came()
            return
        for name, python in signs.absent.items():
            if name not in signs.hooked:
                self._say(
                    f"{name} was not captured: telemetry is not installed for {printable(python)}; "
                    f"install it there with `{printable(python)} -m pip install {distribution.NAME}`"
                )
        for name, path in signs.hidden.items():
            if name not in signs.hooked:
                self._say(
                    f"{name} was not captured: the program has a module named telemetry ({printable(path)}); "
                    "rename it"
                )
        for why in signs.failed[:_SHOWN]:
            self._say(f"a capture failed: {printable(why)}")
        with_signs = {*signs.hooked, *signs.absent, *signs.hidden}
        never = [name for name in self._names if name not in with_signs]
        if never and not signs.failed and not unseen and not in_report:
            self._say(f"nothing to capture: {not_imported(never)}")

    def _say_nothing_came(self) -> None:
        self._warned = True
        self._say(
            "no Python process of the command reported that it is captured. Either the command runs no Python, "
            "replaces PYTHONPATH or the environment, or runs Python with -I, -E or -S; `telemetry capture enable` "
            "covers -I, -E and a replaced PYTHONPATH. Or its processes run on another host or in a container and "
            f"can't write {Path(self._directory) / SIGNS}; they may be captured nevertheless"
        )
