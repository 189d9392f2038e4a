"""The result of a run, from the best source that works: pub/sub, the file, the journal, the last live snapshot.

The journal comes before the last live snapshot: it holds all that the aggregator had taken, and gives exact
percentiles; a live snapshot is up to a tick older, and its percentiles come from buckets.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.emit.spawn import Aggregator, environment, telemetry_command
from telemetry.transport.subscription import Subscription
from telemetry.wire.codec import Malformed, snapshot_from_json
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.emit.keeper import AggregatorKeeper

FINAL_FILE: Final = "final_snapshot.json"
_LOOK_AGAIN_S: Final = 0.2
_ERROR_CHARS: Final = 500


@dataclass(frozen=True)
class RunFiles:
    """Where a run leaves its result."""

    directory: str
    run_id: str
    name: str
    fallback_dirs: tuple[str, ...] = ()
    """Where the final file goes if it can't be written in the run directory, before the one for temporary files."""

    @staticmethod
    def of(aggregator: Aggregator, fallback_dirs: Sequence[str]) -> RunFiles:
        """Relative folders are of the working directory, in which the aggregator was started."""
        folders = tuple(map(os.path.abspath, fallback_dirs))
        return RunFiles(aggregator.directory, aggregator.run_id, aggregator.name, folders)

    def has_result(self) -> bool:
        """Whether there is a final file of a run that came to its end. Blocks on the disk."""
        snapshot, _ = self.final()
        return snapshot is not None and snapshot.state in TERMINAL

    def final(self) -> tuple[MetricsSnapshot | None, str]:
        """The final file that can be read, or why there is none."""
        why = f"there is no {FINAL_FILE}" + (f" in {self.directory}" if self.directory else "")
        for path in self._places():
            try:
                return snapshot_from_json(path.read_bytes()), ""
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, Malformed) as error:
                why = f"{path.name} can't be read: {error}"
        return None, why

    @property
    def has_journal(self) -> bool:
        try:
            return bool(self.directory) and any((Path(self.directory) / "journal").iterdir())
        except OSError:
            return False

    def _places(self) -> Iterator[Path]:
        if self.directory:
            yield Path(self.directory) / FINAL_FILE
        if self.run_id:
            for folder in self.fallback_dirs:
                yield Path(folder) / f"telemetry-{self.run_id}-{FINAL_FILE}"
            with suppress(OSError):  # not every machine has a directory for temporary files; anybody writes there
                path = Path(tempfile.gettempdir()) / f"telemetry-{self.run_id}-{FINAL_FILE}"
                if path.stat().st_uid == os.getuid():
                    yield path


def await_report(
    snapshots: Subscription,
    keeper: AggregatorKeeper,
    patience_s: float,
    *,
    recovery_s: float,
    patience_after_restart_s: float = 0.0,
) -> Report:
    """The final result, or the best there is after `patience_s` or when the aggregator is gone. Never raises.

    `snapshots` has to be older than the request that ends the run. An aggregator that is started again meanwhile is
    given `patience_after_restart_s` at least, as often as a keeper restarts in a row. Reading the journal of one
    that is gone takes `recovery_s` at most.
    """
    if snapshots.newest is not None and snapshots.newest.state in TERMINAL:
        return Report(snapshot=snapshots.newest, source="pubsub")
    deadline = time.monotonic() + patience_s
    latest = deadline + limits.RESTARTS * patience_after_restart_s
    restarts = keeper.restarts
    why = f"the aggregator published no final snapshot within {patience_s:g} s"
    while (left_s := deadline - time.monotonic()) > 0:
        gone = keeper.gone  # read first: what it sent before its end is still found below
        snapshot = snapshots.recv(min(left_s, _LOOK_AGAIN_S))
        if snapshot is not None and snapshot.state in TERMINAL:
            return Report(snapshot=snapshot, source="pubsub")
        if gone and snapshot is None:
            why = keeper.lost or "the aggregator ended before its final snapshot came"
            break
        if keeper.restarts != restarts:
            restarts = keeper.restarts
            deadline = min(latest, max(deadline, time.monotonic() + patience_after_restart_s))
    return second_best(keeper.files, snapshots.newest, why, recovery_s=recovery_s if keeper.gone else 0.0)


def second_best(files: RunFiles, newest: MetricsSnapshot | None, why: str, *, recovery_s: float = 0.0) -> Report:
    """The final file if it can be read, else what the journal says, else the last live snapshot, else an empty one.
    Never raises. The journal may be read, for at most `recovery_s`, only when the aggregator is gone."""
    snapshot, no_file = files.final()
    if snapshot is not None:
        return Report(snapshot=snapshot, source="file", source_reason=why)
    why += f"; {no_file}"
    if recovery_s > 0 and files.has_journal:
        failure = _recover(files.directory, recovery_s)
        snapshot, no_file = files.final()
        if snapshot is not None:
            return Report(snapshot=snapshot, source="journal", source_reason=why)
        why += f"; the journal could not be read: {failure or no_file}"
    if newest is None:
        why += "; no snapshot was ever seen"
        newest = MetricsSnapshot(run_id=files.run_id, name=files.name, directory=files.directory)
    return Report(snapshot=newest, source="last_live", source_reason=why)


def _recover(directory: str, timeout_s: float) -> str:
    """Has the final file written from the journal, by a process of its own. Returns what went wrong."""
    try:
        done = subprocess.run(
            [*telemetry_command(), "recover", directory],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment({}),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {timeout_s:g} s"
    except OSError as error:
        return f"no process could be started: {error.strerror}"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"{(said or ['exit code'])[-1][:_ERROR_CHARS]} ({done.returncode})" if done.returncode else ""


def with_own_account(report: Report, producer: str, emitted: int) -> Report:
    """The journal and a last live snapshot end before the producer that asks: what it emitted since is missing."""
    if report.source not in ("last_live", "journal"):
        return report
    snapshot = report.snapshot
    known = next((stat.emitted for stat in snapshot.producers if stat.producer == producer), 0)
    unheard = max(0, emitted - known)
    account = snapshot.accounting
    account = replace(account, emitted=account.emitted + unheard, missing=account.missing + unheard)
    producers = [
        replace(stat, emitted=emitted, missing=stat.missing + unheard) if stat.producer == producer else stat
        for stat in snapshot.producers
    ]
    return replace(report, snapshot=replace(snapshot, accounting=account, producers=producers))
