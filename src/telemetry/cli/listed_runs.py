"""Runs in the order of a list: live ones, those on disk, and what dead aggregators left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from telemetry.cli import find_run
from telemetry.errors import TelemetryError
from telemetry.wire.gates import Outcome

if TYPE_CHECKING:
    from telemetry.history.headlines import Headline
    from telemetry.store.live_runs import LiveRun
    from telemetry.store.run_directory import RunDirectory
    from telemetry.wire.snapshot import MetricsSnapshot

_ANSWER_TIMEOUT_S = 0.5
DEAD = "DEAD"
"""State of a run whose aggregator died without writing a result."""
RESTARTING = "RESTARTING"
"""State of a run whose aggregator died, while the process that started it restarts the aggregator."""
_SOMEWHERE = "LIVE"
"""State of a run that some process holds, but no process on this host has announced.

It is starting, or it runs on another host.
"""
UNREADABLE = "UNREADABLE"
"""State of a run whose directory belongs to another user, who keeps it private."""


class ListedFigure(Struct, kw_only=True, frozen=True):
    """A figure of the headline of a run, such as `requests/s` and `latency p99`."""

    title: str
    text: str
    value: float | None = None
    """Null: unknown."""
    unit: str = ""


class Listed(Struct, kw_only=True, frozen=True):
    """A run of the list. `pid` and `endpoint` are null unless it is live."""

    name: str
    run_id: str
    state: str
    completeness: str | None = None
    pid: int | None = None
    endpoint: str | None = None
    dir: str
    elsewhere: bool = False
    """True for a live or dead run outside of the folder that is listed. It leaves the list when it has a result."""
    started_ns: int = 0
    duration_s: float | None = None
    """Time from the start to the end or until now. Null: unknown."""
    events: int | None = None
    """Number of events in the result, or so far. Null: unknown."""
    exit_code: int | None = None
    """Exit code of the command of `telemetry run`. Null: none, or ended by a signal."""
    signal: str | None = None
    """Signal that ended the command."""
    failed: bool = False
    """True if the command failed: an exit code other than 0, or a signal; or the program that started the run."""
    failure: str = ""
    """Exception that the program recorded before it failed, else what is known of its end; empty if nothing is."""
    gates: Outcome | None = None
    """Worst outcome of the gates of `telemetry run`. Null: none, or unknown."""
    nodes: int = 0
    """Number of nodes of a run on several machines."""
    recoverable: bool = False
    """True if `telemetry recover` can make a result from the files."""
    figures: list[ListedFigure] = []
    """Figures of the headline, the most important first. Those of a live run are about its last seconds."""
    summary: str = ""
    """The figure or two that tell most, in a few words."""
    concern: str = ""
    """Value of steps that was not finite: `loss NaN or infinite`. Empty if there is none."""


def listed(root: Path, *, only_live: bool = False, everywhere: bool = True) -> list[Listed]:
    """List the runs on disk below `root`, and live and dead ones everywhere; the newest first.

    Without `everywhere`, live and dead runs in other folders are left out.

    Removes targets of killed writers, which Prometheus would go on to scrape.
    """
    from telemetry.store.live_runs import list_live
    from telemetry.store.run_directory import list_runs
    from telemetry.store.scrape_targets import default_folder, remove_dead
    from telemetry.transport import runtime_directory

    if (targets := default_folder()) is not None:
        remove_dead(targets)
    announced = [run for run in list_live(runtime_directory()) if everywhere or _is_below(root, run.dir)]
    fallback_dirs = find_run.fallback_dirs()
    alive = [run for run in announced if run.alive]
    if only_live:
        return newest_first(_marked([_live(run) for run in alive if _ended(run, fallback_dirs) is None], root))
    live = _marked([_ended(run, fallback_dirs) or _live(run) for run in alive], root)
    run_ids = {item.run_id for item in live}
    on_disk = [
        _on_disk(directory, fallback_dirs) for directory in list_runs(root) if directory.run_id not in run_ids
    ]
    run_ids |= {item.run_id for item in on_disk}
    elsewhere = [item for run in announced if (item := _announced(run, fallback_dirs)) is not None]
    return newest_first(live + on_disk + _marked([item for item in elsewhere if item.run_id not in run_ids], root))


def listed_as(runs: list[Listed], spec: str, root: Path) -> Listed:
    """Return the run that other commands take for `spec`. Raises RunNotFoundError, RunDirectoryError.

    A run directory may be outside the list.
    """
    from telemetry.store.run_directory import resolve

    target, fallback_dirs = find_run.target_of(spec, root), find_run.fallback_dirs()
    for item in runs:
        if target.endpoint and item.endpoint == target.endpoint:
            return item
    if target.live is not None:
        return _ended(target.live, fallback_dirs) or _live(target.live)
    directory = resolve(spec, root)
    for item in runs:
        if os.path.realpath(item.dir) == os.path.realpath(directory.path):
            return item
    return _on_disk(directory, fallback_dirs)


def _marked(runs: Sequence[Listed], root: Path) -> list[Listed]:
    """Return announced runs, and mark those outside of the folder."""
    return [replace(item, elsewhere=not _is_below(root, item.dir)) for item in runs]


def _is_below(root: Path, directory: str) -> bool:
    return Path(os.path.realpath(directory)).is_relative_to(os.path.realpath(root))


def newest_first(runs: list[Listed]) -> list[Listed]:
    """Return the runs by their start, the newest first."""
    return sorted(runs, key=lambda item: -item.started_ns)


def _ended(run: LiveRun, fallback_dirs: Sequence[str]) -> Listed | None:
    """Return a run that has its result, although its aggregator stays for a moment; None for any other run."""
    from telemetry.store.run_directory import RunDirectory

    try:
        item = _on_disk(RunDirectory.open(Path(run.dir)), fallback_dirs)
    except TelemetryError:
        return None
    return item if item.completeness is not None and item.run_id == run.run_id else None


def _live(run: LiveRun) -> Listed:
    snapshot = newest_snapshot(run.endpoint)
    return Listed(
        name=run.name,
        run_id=run.run_id,
        state=snapshot.state if snapshot else run.state,
        duration_s=snapshot.elapsed_s if snapshot else None,
        events=snapshot.accounting.applied if snapshot else None,
        nodes=len(snapshot.nodes) if snapshot else 0,
        **_figures(snapshot, recent=True),
        pid=run.pid,
        endpoint=run.endpoint,
        dir=run.dir,
        started_ns=run.started_ns,
    )


def _figures(snapshot: MetricsSnapshot | None, *, recent: bool) -> dict[str, Any]:
    """Return the fields `figures`, `summary` and `concern`."""
    from telemetry.history.headlines import NOT_FINITE, headline, names_not_finite

    heads = headline(snapshot, recent=recent) if snapshot is not None else []
    if snapshot is None or not heads:
        return {}
    figures = [
        ListedFigure(title=figure.title, text=figure.text, value=figure.value, unit=figure.unit)
        for figure in heads[0].figures
    ]
    bad = names_not_finite(snapshot)
    return {
        "figures": figures,
        "summary": _summary(heads[0]),
        "concern": f"{bad[0]} {NOT_FINITE}" if bad else "",
    }


def _summary(head: Headline) -> str:
    """Return the rate and the p99 of requests and series, the first value of steps, else the first figure."""
    from telemetry.history.headlines import compact

    figures = [figure for figure in head.figures if figure.value is not None]
    if head.flavour == "training":
        chosen = figures[1:2] or figures[:1]
    else:
        chosen = figures[:1] + [figure for figure in figures[1:] if figure.title.endswith(" p99")][:1]
    return " · ".join(compact(figure, head, median=False) for figure in chosen)


def newest_snapshot(endpoint: str) -> MetricsSnapshot | None:
    """Ask the aggregator for its state. Return None if it does not answer within `_ANSWER_TIMEOUT_S`."""
    try:
        return find_run.ask(endpoint, _ANSWER_TIMEOUT_S)
    except TelemetryError:
        return None


def _announced(run: LiveRun, fallback_dirs: Sequence[str]) -> Listed | None:
    """Return a run whose aggregator was killed, or None if the run has a result.

    Deletes the announcement and the sockets of a run that is complete or can't be recovered.
    """
    from telemetry.store.live_runs import forget
    from telemetry.store.run_directory import RunDirectory
    from telemetry.transport import runtime_directory

    if run.alive:
        return None
    try:
        item = _on_disk(RunDirectory.open(Path(run.dir)), fallback_dirs)
    except TelemetryError:
        item = None
    if item is None or item.completeness is not None or (item.state == DEAD and not item.recoverable):
        forget(runtime_directory(), run.run_id)
    return item if item is not None and item.completeness is None else None


def _on_disk(directory: RunDirectory, fallback_dirs: Sequence[str]) -> Listed:
    from telemetry.common.wording import last_exception
    from telemetry.store.final_snapshot import find_final
    from telemetry.wire.snapshot import PROGRAM_FAILED, TERMINAL

    final, snapshot = find_final(directory, fallback_dirs), None
    try:
        head = final.head() if final is not None else None
    except TelemetryError:
        head = None
    if head is None or head.state not in TERMINAL:
        return _without_result(directory)
    assert final is not None
    with suppress(TelemetryError):  # the head is readable, so the run is listed without figures
        snapshot = final.read()
    program = head.command is None and head.reason.startswith(PROGRAM_FAILED)
    failed = program or bool(head.command and (head.command.exit_code or head.command.signal))
    left = head.reason.removeprefix(PROGRAM_FAILED).removeprefix(": ") if program else ""
    return Listed(
        name=head.name,
        run_id=head.run_id,
        state=head.state,
        completeness=head.completeness,
        dir=str(directory.path),
        started_ns=head.started_ns,
        duration_s=head.elapsed_s,
        events=head.accounting.applied,
        exit_code=head.command.exit_code if head.command else None,
        signal=head.command.signal if head.command else None,
        failed=failed,
        failure=last_exception(head.marks) or left if failed else "",
        gates=_gates(directory),
        nodes=len(head.nodes),
        **_figures(snapshot, recent=False),
    )


def _gates(directory: RunDirectory) -> Outcome | None:
    from telemetry.store.gate_results import read_gates
    from telemetry.wire.gates import worst

    try:
        results = read_gates(directory.path)
    except TelemetryError:
        return None
    return worst(results) if results else None


def _without_result(directory: RunDirectory) -> Listed:
    from telemetry.store.dead_run import remains

    if not os.access(directory.path, os.R_OK | os.X_OK):
        state = UNREADABLE
    else:
        state = _SOMEWHERE if directory.locked() else RESTARTING if find_run.keeper(directory) else DEAD
    return Listed(
        name=directory.name,
        run_id=directory.run_id,
        state=state,
        dir=str(directory.path),
        started_ns=directory.started_ns,
        recoverable=state == DEAD and remains(directory).recoverable,
    )
