"""Files with the requests of a run, one row for each: `telemetry export RUN --requests FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telemetry.cli import console
from telemetry.cli.outputs import say_wrote
from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError
from telemetry.store.request_log import FILE_NAME
from telemetry.store.run_directory import RunDirectory


def write_request_files(directory: RunDirectory, files: Sequence[str]) -> None:
    """Write all requests of a run to each file, and say what the files lack.

    Raises RunDirectoryError if the run has no request log, UsageError for an unknown suffix.
    """
    from telemetry.history.request_log import RequestLog, facts
    from telemetry.history.tables.request_rows import write_requests

    log_facts = facts(directory)
    if log_facts is None:
        raise RunDirectoryError(
            "the run has no request log",
            hint="the log has requests that a program reports with run.requests(…), unless emit.request_log is off",
        )
    log, count = RequestLog(directory), 0
    for file in files:
        count = write_requests(log, Path(file))
        say_wrote(file, number_of(count, "request"))
    missing = ""
    if count < log_facts.kept:
        path = directory.requests / FILE_NAME
        logged = f"{number_of(log_facts.kept, 'request')} {'was' if log_facts.kept == 1 else 'were'} logged"
        missing = f"{logged} and {formatting.count(log_facts.kept - count)} of them are missing from {path}"
    for lack in filter(None, (log_facts.reason, log.damage or missing)):
        console.say(lack)
