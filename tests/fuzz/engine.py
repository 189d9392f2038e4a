"""The choice of what is tried next, and the record of it: counts, peaks, and bounds.

An input that is slower than the bounds is a finding.
"""

from __future__ import annotations

import faulthandler
import resource
import time
import traceback
import tracemalloc
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from tests.fuzz.forms import noise, pick
from tests.fuzz.target import MIB, Target

LONGEST: Final = 32 * 1024
HANG_S: Final = 60
_FROM_VALID: Final = 0.65
_EVOLVED: Final = 0.27  # of an input in the corpus; the rest is noise
_MEASURED_EVERY: Final = 4_096  # inputs; one of them runs with every allocation counted
_LOOKS_EVERY: Final = 1_024  # inputs between looks at the clock
_ADDRESS_BYTES: Final = 512 * MIB  # beyond what the process has when it begins
_STATM: Final = Path("/proc/self/statm")
_NOTABLE_S: Final = 0.02  # of the wall clock
_SLOW_S: Final = 2.0  # of CPU: one input takes milliseconds at most


class Result(msgspec.Struct, kw_only=True):
    """The outcome of one run."""

    inputs: int = 0
    from_valid: int = 0
    """Mutations of valid input."""
    evolved: int = 0
    """Mutations of inputs that reached something new."""
    noise: int = 0
    """Random bytes, and the corpus as it is."""
    executions: int = 0
    """Calls of the target; a script of several messages is one."""
    seconds: float = 0.0
    peak_rss_bytes: int = 0
    early_rss_bytes: int = 0
    """The peak when a tenth was done."""
    peak_allocated_bytes: int = 0
    """The most that one input allocated, of those that were measured."""
    measured: int = 0
    slowest_ms: float = 0.0
    failure: str = ""
    failing: bytes = b""


class Engine:
    """One target, its valid inputs, and the counts."""

    def __init__(self, target: Target, inputs: int, seconds: float, seed: int, file: Path) -> None:
        self.target = target
        self.result = Result()
        self.over = False
        self.chance = Random(f"{seed} {target.name}").random
        self._seeds = list(target.seeds())
        self._wanted = inputs
        self._seconds = seconds
        self._file = file
        self._kind = "noise"
        self._counts = {"from_valid": 0, "evolved": 0, "noise": 0}
        self._began = time.monotonic()
        self._next_look = 0

    def make(self, evolved: bytes, mutate: Callable[[bytes], bytes] | None = None) -> bytes:
        """The next input. `evolved` is one of the corpus, `mutate` another way to change it."""
        chance = self.chance
        kind = chance()
        if kind < _FROM_VALID:
            self._kind = "from_valid"
            made = self.target.form.mutate(chance, pick(chance, self._seeds), pick(chance, self._seeds))
        elif kind < _FROM_VALID + _EVOLVED:
            self._kind = "evolved"
            if mutate is not None and chance() < 0.3:
                made = mutate(evolved)
            else:
                made = self.target.form.mutate(chance, evolved, pick(chance, self._seeds))
        else:
            self._kind = "noise"
            made = noise(chance, self.target.head if chance() < 0.5 else b"")
        return made[:LONGEST]

    def run(self, data: bytes) -> None:
        """Raises what the target raises, after the result was written."""
        result = self.result
        result.executions += 1
        begun = time.perf_counter()
        try:
            measured = result.executions % _MEASURED_EVERY == 0
            count = self._measured(data) if measured else self.target.run(data)
            took = time.perf_counter() - begun
            if took * 1e3 > result.slowest_ms:
                self._slow(data, took)
        except BaseException:
            result.failure, result.failing = traceback.format_exc(), data
            self.finish()
            raise
        self._counts[self._kind] += count
        if result.executions >= self._next_look:
            self._look()

    def finish(self) -> None:
        result = self.result
        for kind, count in self._counts.items():
            setattr(result, kind, count)
        result.inputs = sum(self._counts.values())
        result.seconds = time.monotonic() - self._began
        result.peak_rss_bytes = _peak_bytes()
        self._file.write_bytes(msgspec.json.encode(result))

    def _measured(self, data: bytes) -> int:
        tracemalloc.start()
        try:
            count = self.target.run(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.result.measured += 1
        self.result.peak_allocated_bytes = max(self.result.peak_allocated_bytes, peak)
        if peak > self.target.bound(len(data)):
            raise MemoryError(f"{len(data)} bytes made the decoder allocate {peak}")
        return count

    def _slow(self, data: bytes, took: float) -> None:
        """Another process may have had the processor: the time that counts is that of a second try."""
        if took > _NOTABLE_S:
            begun = time.process_time()
            self.target.run(data)
            took = time.process_time() - begun
            if took > _SLOW_S:
                raise TimeoutError(f"{took:.1f} s for {len(data)} bytes")
        self.result.slowest_ms = max(self.result.slowest_ms, took * 1e3)

    def _look(self) -> None:
        self._next_look = self.result.executions + _LOOKS_EVERY
        done = sum(self._counts.values())
        if done < self._wanted / 10 or not self.result.early_rss_bytes:
            self.result.early_rss_bytes = _peak_bytes()
        self.over = done >= self._wanted or time.monotonic() - self._began >= self._seconds
        faulthandler.dump_traceback_later(HANG_S + _LOOKS_EVERY * _SLOW_S, exit=True)


def parser(targets: Sequence[str]) -> ArgumentParser:
    """Return a parser of the arguments that both ways of running a target take."""
    made = ArgumentParser()
    made.add_argument("target", choices=targets)
    made.add_argument("--inputs", type=int, required=True)
    made.add_argument("--seconds", type=float, required=True)
    made.add_argument("--seed", type=int, required=True)
    made.add_argument("--corpus", type=Path, required=True)
    made.add_argument("--result", type=Path, required=True)
    return made


def bound_memory() -> None:
    """An allocation out of all proportion fails, and that is a finding. Only Linux tells what there is already."""
    if not _STATM.exists():
        return
    pages = int(_STATM.read_text().split()[0])
    most = pages * resource.getpagesize() + _ADDRESS_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
