"""Stories one after the other: told, made simpler, or by the thousand in several processes."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from tests.simulator.plan import simpler
from tests.simulator.story import Outcome, play

from telemetry.store.atomic import write_atomic

RECORD: Final = Path("build/simulator.json")
_CHUNK: Final = 25


def tell(outcome: Outcome) -> int:
    """Print a story and its end. Return the exit code."""
    print("\n".join(outcome.story))
    print(f"seed {outcome.seed}: {outcome.failure or outcome.completeness} ({outcome.digest})")
    if outcome.error is not None:
        traceback.print_exception(outcome.error)
    return bool(outcome.failure)


def shrunk(seed: int) -> Outcome:
    """Return the simplest story in which the same promise is broken."""
    simplest = play(seed)
    while simplest.failure:
        for plan in simpler(simplest.plan):
            outcome = play(seed, plan)
            if outcome.kind == simplest.kind:
                simplest = outcome
                break
        else:
            break
    return simplest


def play_many(options: argparse.Namespace) -> int:
    """Play stories in several processes. Return 1 if one has failed."""
    first: int = options.first
    last = None if options.seeds is None else first + options.seeds
    starts: Iterator[int] = count(first, _CHUNK) if last is None else iter(range(first, last, _CHUNK))
    begin_s, played, failures = time.monotonic(), 0, list[Outcome]()
    kinds: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        try:
            waiting = [pool.submit(play_chunk, start, last) for start in islice(starts, 2 * options.jobs)]
            while waiting:
                outcomes = waiting.pop(0).result()
                if (start := next(starts, None)) is not None:
                    waiting.append(pool.submit(play_chunk, start, last))
                for outcome in outcomes:
                    played += 1
                    kinds[outcome.completeness] += 1
                    if options.digests:
                        print(outcome.seed, outcome.digest)
                    if outcome.failure:
                        failures.append(outcome)
                        print(f"seed {outcome.seed}: {outcome.failure[:300]}", flush=True)
                if failures and options.until_failure:
                    break
        except KeyboardInterrupt:
            pass
        pool.shutdown(wait=False, cancel_futures=True)
    seconds = time.monotonic() - begin_s
    if not options.digests:
        shares = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
        print(f"{played:,} stories in {seconds:,.0f} s ({played / seconds:,.0f} a second): {shares}")
        print(f"{len(failures):,} failed")
    if options.forever:
        keep_count(played, len(failures))
    return bool(failures)


def play_chunk(start: int, last: int | None) -> list[Outcome]:
    """Play some stories, and return their ends without what only one process can use."""
    end = start + _CHUNK if last is None else min(start + _CHUNK, last)
    return [play(seed).without_story() for seed in range(start, end)]


def keep_count(played: int, failed: int) -> None:
    """Add to the counts of this commit."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    commit = head.stdout.strip() or "unknown"
    counts = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    before = counts.get(commit, {"played": 0, "failed": 0})
    counts[commit] = {"played": before["played"] + played, "failed": before["failed"] + failed}
    RECORD.parent.mkdir(exist_ok=True)
    write_atomic(RECORD, f"{json.dumps(counts, indent=1)}\n".encode(), durable=False)
