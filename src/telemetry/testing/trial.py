"""One run and the writer of one backend for it, as real processes, with faults on the way."""

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
"""For a process, or for what is waited for."""
_LOOK_S: Final = 0.02
_AGAIN: Final = (-signal.SIGKILL, 1)  # codes after which a writer is started again
_MOST_STARTS: Final = 10


@dataclass(frozen=True)
class Ended:
    """What became of a process."""

    code: int
    said: str
    """stderr."""
    out: str = ""


class Trial:
    """Its processes see no settings but those of `environment`."""

    def __init__(
        self,
        folder: Path,
        sample: Sample,
        to: str,
        environment: Mapping[str, str],
        meanwhile: Callable[[Path, str], object] = lambda folder, where: None,
    ) -> None:
        """`folder`: for what it needs itself. `meanwhile` is called again and again while a writer is there, with
        the writer's folder and where it writes to."""
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
        own |= {"XDG_CONFIG_HOME": str(folder), **environment}
        paths = [str(plug), *filter(None, [environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")])]
        self.environment = own | {"PYTHONPATH": os.pathsep.join(paths)}

    def start(self) -> subprocess.Popen[str]:
        """The writer's process, with the faults."""
        return self._start("export", *self._words, "--writer", "--to", self._to)

    def write(self, *faults: Fault) -> Ended:
        """Runs the writer once, to its end."""
        self.faults.plan(*faults)
        return self.wait(self.start())

    def write_bare(self, to: str = "") -> Ended:
        """The same without anything in between; `to`: something else than what is tried."""
        return self.wait(self._start("export", *self._words, "--writer", "--to", to or self.to))

    def write_until_it_ends(self) -> list[Ended]:
        """Runs the writer, and another one if it is killed or hangs, as those do that look after writers."""
        ends: list[Ended] = []
        while not ends or (ends[-1].code in _AGAIN and len(ends) < _MOST_STARTS):
            ends.append(self.wait(self.start()))
        return ends

    def resume(self) -> Ended:
        """`telemetry export --resume`, which looks after writers."""
        return self.wait(self._start("export", str(self.sample.path), "--resume"))

    def wait(self, process: subprocess.Popen[str], until: Callable[[BackendStat], object] | None = None) -> Ended:
        """Until it ends; with `until` it is asked to end once that is true of its status. Kills it if it takes too
        long."""
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
        """The status once that is true of it, or None if the process has ended before; ends it if it takes too
        long."""
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
        """The writer's own newest word."""
        return self.writer.read_status() or BackendStat(name=self.writer.path.name)

    def log(self) -> str:
        """What its library has said."""
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
