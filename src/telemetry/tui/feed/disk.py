"""News about an ended run, from its directory."""

from __future__ import annotations

import time
from collections.abc import Sequence

from telemetry.errors import RunDirectoryError
from telemetry.history.interval_source import DiskIntervals
from telemetry.store.run_directory import RunDirectory
from telemetry.tui.feed.history_thread import HistoryThread
from telemetry.tui.feed.local_files import GatesWatch, OutputTail, members_of, remedy_of, result_of
from telemetry.tui.feed.member_requests import MemberRequests
from telemetry.tui.feed.news import NewsChannel, NewSnapshot, Tell, ViewerNote
from telemetry.tui.feed.steps_thread import DiskRecords, StepsThread
from telemetry.tui.model.scene import SeriesId
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import MetricsSnapshot


class DiskFeed:
    """A `telemetry.tui.feed.news.NewsFeed` of fixed data. One thread reads the history."""

    def __init__(self, directory: RunDirectory, fallback_dirs: Sequence[str] = ()) -> None:
        """Read the result. Raises RunDirectoryError with a remedy if there is no readable result."""
        self._directory = directory
        self._result = _result(directory, fallback_dirs)
        self._fallback_dirs = fallback_dirs
        self._output = OutputTail(directory.path)
        self._gates = GatesWatch(directory.path)
        self._outlet = NewsChannel()
        self._members = MemberRequests(self._outlet.tell, self._read_members)
        self._history_thread = HistoryThread(self._outlet.tell, lambda _: DiskIntervals(directory.history))
        self._steps = StepsThread(self._outlet.tell, lambda _: DiskRecords(directory))

    def start(self, tell: Tell) -> None:
        self._outlet.open(tell)
        tell(NewSnapshot(self._result, time.monotonic_ns(), live=False))
        for news in (self._gates.look(), self._output.look()):
            if news is not None:
                tell(news)
        self._history_thread.saw(self._result)
        self._history_thread.start()
        self._steps.saw(self._result)
        self._steps.start()

    def follow(self, series: SeriesId | None) -> None:
        self._history_thread.follow(series)

    def look_at(self, end_ns: int, seconds: float) -> None:
        self._history_thread.look_at(end_ns, seconds)

    def list_members(self, node: str) -> None:
        self._members.ask(node)

    def _read_members(self, node: str) -> list[MemberFacts]:
        members = members_of(self._result, node, self._fallback_dirs)
        if members is None:
            raise RunDirectoryError("the root keeps no list of producers, and the leaf's own result is not here")
        return members

    def stop_run(self) -> None:
        self._outlet.tell(ViewerNote("the run has already ended"))

    def close(self) -> None:
        self._outlet.close()
        self._history_thread.close()
        self._steps.close()
        self._output.close()


def _result(directory: RunDirectory, fallback_dirs: Sequence[str]) -> MetricsSnapshot:
    reason, hint = f"there is no result in {directory.path}", ""
    try:
        result = result_of(directory, fallback_dirs)
        if result is not None:
            return result
    except RunDirectoryError as error:
        reason, hint = error.message, error.hint
    if directory.locked():
        raise RunDirectoryError(reason, hint=hint or "its aggregator is alive; `telemetry ls` shows it")
    raise RunDirectoryError(reason, hint=remedy_of(directory, fallback_dirs) or hint or "it left no journal either")
