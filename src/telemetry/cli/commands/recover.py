"""`telemetry recover`: the result of a run whose aggregator died, built from its journal."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run
from telemetry.errors import EndpointError
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.daemon.recovery.recover import Recovered

_PATIENCE_S: Final = 1.0
_SHOWN_EVERY_S: Final = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser, required=True)
    parser.add_argument(
        "--exact", action="store_true", help="also compute exact percentiles if the result lacks them"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `serve`
    from telemetry.config import load
    from telemetry.daemon.recovery.recover import recover
    from telemetry.store.dead_run import forget_finished
    from telemetry.store.final_snapshot import final_json
    from telemetry.store.run_directory import resolve
    from telemetry.transport import runtime_directory

    directory = resolve(args.target, find_run.root_directory(args.dir))
    find_run.refuse_if_kept(directory)
    with ProgressLine() as progress:
        config = load({}).config
        recovery = recover(directory, config, exact=args.exact, on_progress=progress)
    with suppress(EndpointError):
        forget_finished(runtime_directory(), config.run.fallback_dirs)
    _say(recovery)
    if args.json:
        console.write(final_json(recovery.snapshot).decode())
    return Exit.OK


def _say(recovery: Recovered) -> None:
    snapshot = recovery.snapshot
    console.say(Report(snapshot=snapshot, source="file").headline())
    if not recovery.written:
        more = "; `--exact` computes its exact percentiles" if recovery.refinable else ""
        console.say(f"nothing to recover: the run already has its result{more}")
    elif snapshot.reason:
        console.say(snapshot.reason)
    if not (snapshot.exact or recovery.refinable):
        console.say(f"not exact: {snapshot.exact_reason}")
    if not recovery.written:
        return
    for warning in snapshot.warnings:
        console.say(warning)
    console.say(snapshot.directory)


class ProgressLine:
    """A progress line on stderr. Shown on a terminal only, for work that takes longer than a second."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._shown_s = 0.0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown_s:
            console.talk("\r\x1b[K")

    def __call__(self, what: str, share: float) -> None:
        now_s = time.monotonic()
        if now_s - self._begin_s < _PATIENCE_S or now_s - self._shown_s < _SHOWN_EVERY_S:
            return
        if not sys.stderr.isatty():
            return
        self._shown_s = now_s
        far = f"{now_s - self._begin_s:.0f} s" if math.isnan(share) else f"{share:.0%}"
        console.talk(f"\rtelemetry: {what} … {far}\x1b[K")
