"""The process of the collectors of a run: `python -m telemetry.collectors.process ENDPOINT --collect NAME[:…]`.

  main thread      waits for the end: SIGTERM, or the death of its parent
  one per collector    takes samples
  flusher          sends them, as in any producer

Exit codes: 0, 1 if the run can't be reached, 6 if a collector that the user asked for failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.run import Run, start
from telemetry.collectors import registry
from telemetry.collectors.collector import ONCE_S, Collector, NotAvailable, NotConfigured, Target
from telemetry.common.clock import backoff_s
from telemetry.common.formatting import count, duration_s, number_of, printable
from telemetry.config import load
from telemetry.errors import TelemetryError, UsageError, error_text
from telemetry.supervise.parent import parent_pid
from telemetry.wire.collectors import COLLECTORS, COLLECTORS_NAME
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.client.run import Run

_PAUSE_S: Final = 2.0
"""Pause after the first error. It doubles with each further error, up to `_PAUSE_MOST_S`."""
_PAUSE_MOST_S: Final = 60.0
_LEAST_S: Final = 0.1
"""Shortest pause between two samples, whatever the collector wants."""
_HANGS_S: Final = 10.0
"""Time after which a call into a collector counts as one that does not return."""
_LOOK_S: Final = 0.5
_FLUSH_MS: Final = 250.0
"""Interval of the flusher. Figures of one sample a second need no shorter one."""
_LAST_SAMPLES_S: Final = 0.1
_GOODBYE_S: Final = 0.15
_OF_ONE_RANK: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def main(argv: Sequence[str] | None = None) -> int:
    """Collect until asked to end. Returns the exit code."""
    args = _parser().parse_args(argv)
    stop = _Stop()
    parent = parent_pid()
    os.environ[ENDPOINT_VARIABLE] = args.endpoint
    for variable in _OF_ONE_RANK:  # the collectors are no rank of the job, even if `telemetry run` is
        os.environ.pop(variable, None)
    PROCESS.id_prefix = COLLECTORS
    PROCESS.ends_with_run = True
    try:
        run = start(COLLECTORS_NAME, flush_ms=_FLUSH_MS, policy="drop")
    except TelemetryError as error:
        _say(str(error))
        return Exit.ERROR
    target = Target(
        pid=args.pid,
        directory=Path(run.directory) if Path(run.directory).is_dir() else None,
        name=run.name,
        working_directory=_working_directory(),
        labels={"node": args.node} if args.node else {},
    )
    samplers = _samplers(args.collect, args.default, run, target, load().config.collect.interval_s)
    for sampler in samplers:
        sampler.start()
    while not stop and os.getppid() == parent:
        stop.wait(_LOOK_S)
    _end(samplers)
    return Exit.BACKEND_FAILED if any(sampler.failed for sampler in samplers) else Exit.OK


def _samplers(
    asked: Sequence[str], defaults: Sequence[str], run: Run, target: Target, interval_s: float
) -> list[Sampler]:
    """Return the threads of the collectors. An invalid default is reported and left out."""
    samplers = []
    for text in (*defaults, *asked):
        try:
            choice = registry.parse(text)
        except TelemetryError as error:
            _say(str(error))
            continue
        say = _with_name(choice.name)
        labels = {**target.labels, **({"collector": choice.name} if choice.name != choice.kind else {})}
        make = partial(registry.make, choice, replace(target, collector=choice.name, labels=labels))
        samplers.append(Sampler(choice.name, make, run, say, interval_s=interval_s, asked_for=text not in defaults))
    return samplers


def _end(samplers: Sequence[Sampler]) -> None:
    """Take the last samples and end this producer. A collector that hangs is left behind."""
    for sampler in samplers:
        sampler.ask_to_end()
    deadline_s = time.monotonic() + _LAST_SAMPLES_S
    for sampler in samplers:
        sampler.join(max(0.0, deadline_s - time.monotonic()))
    PROCESS.finish(_GOODBYE_S)
    for sampler in samplers:
        if message := sampler.conclusion():
            _say(f"{sampler.collector_name}: {message}")


class _Stop:
    """A flag that is true once SIGTERM or SIGINT asked this process to end. Main thread only."""

    def __init__(self) -> None:
        self._asked = False
        self._pipe, self._pipe_in = os.pipe()
        os.set_blocking(self._pipe_in, False)
        signal.set_wakeup_fd(self._pipe_in, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._heard)

    def __bool__(self) -> bool:
        return self._asked

    def wait(self, seconds: float) -> None:
        """Block until asked to end, for at most `seconds`."""
        import select

        poller = select.poll()  # `select` takes no descriptor above 1,023
        poller.register(self._pipe, select.POLLIN)
        poller.poll(seconds * 1_000)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


def _with_name(name: str) -> Callable[[str], None]:
    return lambda message: _say(f"{name}: {message}")


def _say(message: str) -> None:
    """Print a line on stderr, in one call, because several threads print. Ignores a closed stderr."""
    with suppress(OSError):
        os.write(2, f"telemetry: {message}\n".encode(errors="replace"))


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it was removed
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m telemetry.collectors.process")
    parser.add_argument("endpoint", help="control address of the run")
    parser.add_argument("--pid", type=int, default=0, help="process of the command")
    parser.add_argument("--node", default="", help="name of this node in a run on several machines")
    parser.add_argument("--collect", action="append", default=[], metavar="NAME[:key=value,…]")
    parser.add_argument(
        "--default", action="append", default=[], metavar="NAME", help="collector that may be absent"
    )
    return parser


class Sampler(threading.Thread):
    """A thread that samples one collector until it is asked to end.

    `make` creates the collector and may raise anything. `say` gets each message for the user.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Collector],
        run: Run,
        say: Callable[[str], object],
        *,
        interval_s: float,
        asked_for: bool,
        pause_s: float = _PAUSE_S,
        hangs_s: float = _HANGS_S,
    ) -> None:
        super().__init__(name=f"telemetry-{name}", daemon=True)
        self.collector_name = name
        self.samples = 0
        """Number of samples that were recorded."""
        self.failures = 0
        """Number of samples that failed."""
        self.last_error = ""
        self.is_absent = False
        """True if the collector can't work here: what it observes is missing, or its options are wrong."""
        self._make = make
        self._run_ = run
        self._say = say
        self._interval_s = self._usual_s = interval_s
        self._asked_for = asked_for
        self._pause_s = pause_s
        self._hangs_s = hangs_s
        self._failed_in_a_row = 0
        self._call_began_s: float | None = None
        """Start of the call into the collector that goes on; None between two calls."""
        self._ending = threading.Event()

    @property
    def failed(self) -> bool:
        """True if the user asked for this collector, and it can't work here, hangs, or failed at the end."""
        return self._asked_for and (self.is_absent or self._failed_in_a_row > 0 or self._hangs)

    @property
    def _hangs(self) -> bool:
        return self._call_s >= self._hangs_s

    @property
    def _call_s(self) -> float:
        """Age of the call that goes on; 0 between two calls."""
        began_s = self._call_began_s
        return time.monotonic() - began_s if began_s is not None else 0.0

    def ask_to_end(self) -> None:
        """Take a last sample, then end. Does not block."""
        self._ending.set()

    def run(self) -> None:
        collector = self._made()
        if collector is None:
            return
        try:
            due_s = time.monotonic()
            while not self._ending.wait(max(0.0, due_s - time.monotonic())):
                begun_s = time.monotonic()
                if self._sample(collector):
                    # keep the beat, but don't catch up on samples that a slow one has delayed
                    due_s = max(due_s + self._interval_s, begun_s)
                else:
                    due_s = time.monotonic() + backoff_s(self._failed_in_a_row, self._pause_s, _PAUSE_MOST_S)
            if not self._failed_in_a_row:
                self._sample(collector)
        finally:
            self._close(collector)

    def conclusion(self) -> str:
        """Return the line about failed samples at the end of a run; empty without any."""
        if self._hangs:
            return f"it hangs: a call has not returned for {duration_s(self._call_s)}; its figures end there"
        if not self.failures:
            return ""
        taken = self.samples + self.failures
        return f"{count(self.failures)} of {number_of(taken, 'sample')} failed; the last error: {self.last_error}"

    # --- calls into the collector ----------------------------------------------------------------

    def _made(self) -> Collector | None:
        self._call_began_s = time.monotonic()
        try:
            return self._make()
        except NotAvailable as error:
            self.is_absent = True
            self.last_error = _one_line(f"{error.reason} ({error.hint})" if error.hint else error.reason)
            if self._asked_for:
                self._say(self.last_error)
        except (NotConfigured, UsageError) as error:
            self.is_absent = True
            self.last_error = _one_line(str(error))
            self._say(self.last_error)
        except BaseException as error:  # noqa: BLE001 – code of other packages, which may call sys.exit
            self.is_absent = True
            self.last_error = _words(error)
            self._say(f"can't start: {self.last_error}")
        finally:
            self._call_began_s = None
        return None

    def _interval_of(self, collector: Collector) -> float:
        """Return the pause that a collector wants, within bounds. Raises whatever its attribute makes of it."""
        wanted_s = float(getattr(collector, "interval_s", 0.0)) or self._usual_s
        return min(max(_LEAST_S, wanted_s), ONCE_S)

    def _sample(self, collector: Collector) -> bool:
        """Take a sample. Return whether it succeeded."""
        self._call_began_s = time.monotonic()
        try:
            collector.sample(self._run_)
            self._interval_s = self._interval_of(collector)
        except BaseException as error:  # noqa: BLE001 – as above; counted, and said once
            self.failures += 1
            self._failed_in_a_row += 1
            self.last_error = _words(error)
            if self.failures == 1:
                self._say(f"a sample failed: {self.last_error}; it is tried again")
            return False
        finally:
            self._call_began_s = None
        self.samples += 1
        self._failed_in_a_row = 0
        return True

    def _close(self, collector: Collector) -> None:
        try:
            collector.close()
        except BaseException as error:  # noqa: BLE001 – as above
            self._say(f"can't close: {_words(error)}")


def _words(error: BaseException) -> str:
    return _one_line(str(error) if isinstance(error, TelemetryError) else error_text(error))


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))[:500]


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a collector that hangs must not hold up the end
