"""A trial of one backend: a run and its writer as real processes, with injected faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telemetry.backends.choice import parse
from telemetry.store.backends import WriterFolder, writer_folder
from telemetry.testing.faulty import Fault, Faults, around, plug_in
from telemetry.testing.sample import EVERY_S, Sample
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat

WAIT_S: Final = 60.0
"""Timeout for a process or a condition, in seconds."""
_LOOK_S: Final = 0.02
_AGAIN: Final = (-signal.SIGKILL, 1)  # exit codes after which a writer is restarted
_MOST_STARTS: Final = 10


@dataclass(frozen=True)
class Ended:
    """The end of a process."""

    code: int
    said: str
    """Output on stderr."""
    out: str = ""


class Trial:
    """A trial. Its processes see no settings except those in `environment`."""

    def __init__(
        self,
        folder: Path,
        sample: Sample,
        to: str,
        environment: Mapping[str, str],
        meanwhile: Callable[[Path, str], object] = lambda folder, where: None,
    ) -> None:
        """Prepare the trial in `folder`.

        `meanwhile` is called repeatedly while a writer runs, with the writer's folder and the place that it writes
        to.
        """
        self.sample = sample
        self.to = to
        self.faults = Faults(folder)
        self.writer: WriterFolder = writer_folder(sample.path, parse(to).name)
        self._folder = folder
        self._meanwhile = meanwhile
        self._words = [str(sample.path), "--every", str(EVERY_S)]
        self._to = around(to, folder)
        plug = plug_in(folder)
        own = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
        own |= {"XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), **environment}
        paths = [str(plug), *filter(None, [environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")])]
        self.environment = own | {"PYTHONPATH": os.pathsep.join(paths)}

    def start(self) -> subprocess.Popen[str]:
        """Start the writer's process, with the faults."""
        return self._start("export", *self._words, "--writer", "--to", self._to)

    def write(self, *faults: Fault) -> Ended:
        """Run the writer once, to its end."""
        self.faults.plan(*faults)
        return self.wait(self.start())

    def write_bare(self, to: str = "") -> Ended:
        """Run the writer without the fault injection. `to`: another backend than the one on trial."""
        return self.wait(self._start("export", *self._words, "--writer", "--to", to or self.to))

    def write_until_it_ends(self) -> list[Ended]:
        """Run the writer, and restart it after a kill or a hang, as a supervisor does."""
        ends: list[Ended] = []
        while not ends or (ends[-1].code in _AGAIN and len(ends) < _MOST_STARTS):
            ends.append(self.wait(self.start()))
        return ends

    def resume(self) -> Ended:
        """Run `telemetry export --resume`, which supervises writers."""
        return self.wait(self._start("export", str(self.sample.path), "--resume"))

    def wait(self, process: subprocess.Popen[str], until: Callable[[BackendStat], object] | None = None) -> Ended:
        """Wait for the end of a process. Kills it after a timeout.

        `until`: once it is true of the status, the process is asked to stop.
        """
        deadline_s = time.monotonic() + WAIT_S
        try:
            while process.poll() is None:
                stat = self.status()
                if until is not None and until(stat):
                    process.terminate()
                    until = None
                self._look(stat)
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"the writer takes more than {WAIT_S:.0f} s: {stat}; {self.log()}")
                time.sleep(_LOOK_S)
        finally:
            process.kill()
            out, said = process.communicate()
        return Ended(process.returncode, said, out)

    def until(
        self, process: subprocess.Popen[str], condition: Callable[[BackendStat], object]
    ) -> BackendStat | None:
        """Wait until a condition is true and return the status, or None if the process ended before.

        Kills the process after a timeout.
        """
        deadline_s = time.monotonic() + WAIT_S
        while not condition(stat := self.status()):
            if process.poll() is not None:
                return None
            self._look(stat)
            if time.monotonic() > deadline_s:
                process.kill()
                process.communicate()
                raise TimeoutError(f"nothing like that is seen within {WAIT_S:.0f} s: {stat}; {self.log()}")
            time.sleep(_LOOK_S)
        return stat

    def status(self) -> BackendStat:
        """Return the writer's latest status."""
        return self.writer.read_status() or BackendStat(name=self.writer.path.name)

    def log(self) -> str:
        """Return the output of the library."""
        return self.writer.log.read_text(errors="replace") if self.writer.log.exists() else ""

    def _look(self, stat: BackendStat) -> None:
        self._meanwhile(self.writer.path, stat.place if stat.state not in BACKEND_ENDED else "")

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "telemetry", *words],
            cwd=self._folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
