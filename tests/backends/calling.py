"""Calls of one backend in a process of its own, and what each of them raised.

A tracker's library warns, patches and stays in memory: none is imported into the process of the tests.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from telemetry.backends.backend import RunFacts
from telemetry.backends.choice import make, parse
from telemetry.backends.items import Item

ROOT = Path(__file__).parents[2]
STARTED_NS = 1_790_000_000_000_000_000


@dataclass
class Called:
    raised: list[str] = field(default_factory=list)
    """`Type: words` of each call in order, "" if it raised nothing: open, each batch with its flush, close."""
    state: dict[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass
class Given:
    to: str
    folder: Path
    batches: Sequence[Sequence[Item]] = ()
    state: Mapping[str, Any] | None = None
    """None: what the one before it in the same process left."""
    final: bool = True


def call(*given: Given, environment: Mapping[str, str] | None = None) -> list[Called]:
    """One after the other in one process: opens, writes and flushes each of the batches, closes. Without success in
    `open` nothing more."""
    command = [sys.executable, "-m", "tests.backends.calling"]
    surroundings = {**os.environ, **(environment or {})}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=surroundings,
        input=pickle.dumps(given),
        stdout=subprocess.PIPE,
        check=True,
        timeout=100,
    )
    found: list[Called] = pickle.loads(done.stdout)
    return found


def main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    found: list[Called] = []
    for given in pickle.loads(sys.stdin.buffer.read()):
        before = found[-1].state if found else {}
        found.append(_called(given, before if given.state is None else dict(given.state)))
    with os.fdopen(answer, "wb") as out:
        out.write(pickle.dumps(found))


def _called(given: Given, state: dict[str, Any]) -> Called:
    done = Called(state=state)

    def tried(*calls: Callable[[], object]) -> bool:
        try:
            for one in calls:
                one()
        except Exception as error:  # noqa: BLE001 – what it raises is what is asked for
            done.raised.append(f"{type(error).__name__}: {error}")
            return False
        done.raised.append("")
        return True

    (given.folder / "data").mkdir(parents=True, exist_ok=True)
    facts = RunFacts("run-1", "bench", STARTED_NS, given.folder / "bench-1", host="host")
    gc.disable()  # until it is open, as in a writer
    backend = make(parse(given.to), given.folder / "data")
    opened = tried(partial(backend.open, facts, state))
    gc.freeze()
    gc.enable()
    if opened:
        for batch in given.batches:
            tried(partial(backend.write, batch), backend.flush)
        tried(partial(backend.close, final=given.final))
        done.state, done.where = backend.state(), backend.where()
    return done


if __name__ == "__main__":
    from tests.backends.calling import main as entry  # the answer is of that module's classes

    entry()
