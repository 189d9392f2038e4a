"""The request log of a merged run: those of its runs, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from telemetry.errors import RunDirectoryError
from telemetry.merge.sources import Input
from telemetry.store.request_log import RequestLogReader, RequestLogWriter
from telemetry.store.run_directory import RunDirectory


def join_request_logs(inputs: Sequence[Input], directory: RunDirectory) -> list[str]:
    """Write the requests of all runs, moved as the runs are, and return warnings about what can't be read.

    Raises RunDirectoryError if the log can't be written.
    """
    warnings = []
    log = RequestLogWriter(directory.requests)
    for one in inputs:
        reader = RequestLogReader(one.directory.requests)
        try:
            for frame in reader.frames():
                moved = replace(frame, offset_ns=frame.offset_ns + one.shift_ns)
                log.append([moved], log.next_number)
        except RunDirectoryError as error:
            warnings.append(f"{one.label}: {error.message}")
        if reader.damaged_bytes or reader.unreadable:
            warnings.append(f"{one.label}: a part of its request log can't be read and is left out")
    log.close()
    if log.failed:
        raise RunDirectoryError(f"can't write the request log: {log.failed}")
    return warnings
