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
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.run import Run, start
from telemetry.collectors import registry
from telemetry.collectors.collector import Target
from telemetry.collectors.sampler import Sampler
from telemetry.config import load
from telemetry.errors import TelemetryError
from telemetry.supervise.parent import parent_pid
from telemetry.wire.collectors import COLLECTORS, COLLECTORS_NAME

OK: Final = 0
NO_RUN: Final = 1
FAILED: Final = 6
_LOOK_S: Final = 0.5
_FLUSH_MS: Final = 250.0
"""Interval of the flusher. Figures of one sample a second need no shorter one."""
_LAST_SAMPLES_S: Final = 0.1
_GOODBYE_S: Final = 0.15
_OF_ONE_RANK: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def main(words: Sequence[str] | None = None) -> int:
    """Collect until asked to end. Returns the exit code."""
    args = _parser().parse_args(words)
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
        return NO_RUN
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
    return FAILED if any(sampler.failed for sampler in samplers) else OK


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
        if words := sampler.conclusion():
            _say(f"{sampler.collector_name}: {words}")


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
    return lambda words: _say(f"{name}: {words}")


def _say(words: str) -> None:
    """Print a line on stderr, in one call, because several threads print. Ignores a closed stderr."""
    with suppress(OSError):
        os.write(2, f"telemetry: {words}\n".encode(errors="replace"))


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


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a collector that hangs must not hold up the end
