"""The request log of a run, as it is read and exported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from msgspec import Raw, msgpack
from tests.fuzz import valid
from tests.fuzz.file_forms import Segment
from tests.fuzz.file_targets import segment, small_buffers
from tests.fuzz.memory_files import folder
from tests.fuzz.msgpack_form import Msgpack
from tests.fuzz.target import MIB, Target, refused

from telemetry.errors import RunDirectoryError
from telemetry.history.request_log import RequestLog, _TokensLater
from telemetry.history.tables.request_rows import row
from telemetry.history.tables.row_files import cell, iso
from telemetry.store import framing, request_log
from telemetry.wire import codec
from telemetry.wire.request_log import LoggedRecords

_MOST_NS: Final = (1 << 63) - 1


def log_bytes() -> bytes:
    """Requests of two programs, and tokens that were counted later."""
    requests, tokens = (Raw(msgpack.encode(record)) for record in valid.REQUEST_RECORDS)
    logged = [
        LoggedRecords("p", valid.WALL_NS - valid.MONO_NS, 0, [requests, tokens]),
        LoggedRecords("q", -5, 7, [requests, requests]),
        LoggedRecords("telemetry.tokens", 0, 0, [tokens]),
    ]
    frames = [([codec.encode_logged(one)], number, request_log.RECORDS) for number, one in enumerate(logged)]
    return segment(request_log.MAGIC, frames)


def run_request_log(data: bytes) -> int:
    """Check that each entry that is read is a row whose times fit in 64 bits.

    A writer goes on behind the good entries.
    """
    requests = RequestLog(SimpleNamespace(requests=folder({request_log.FILE_NAME: data})))  # type: ignore[arg-type]
    with small_buffers():
        try:
            for request in requests:
                found = row(request)
                assert min(found.issued_at, found.issued_ns, found.ended_ns) >= 0
                assert max(found.issued_at, found.issued_ns, found.ended_ns) <= _MOST_NS
                assert len(found.chunk_tokens) == len(found.gaps_ns) or request.entry.chunk_tokens
                iso(found.issued_at)
                for value in found:
                    cell(value)
        except RunDirectoryError as error:
            refused(error)
        assert requests.damage.isprintable()
    return 1


TARGETS: Final = (
    Target(
        name="request_log",
        run=run_request_log,
        form=Segment({request_log.RECORDS: Msgpack()}),
        seeds=lambda: [log_bytes(), log_bytes()[:-5]],
        covers=(request_log.RequestLogReader, RequestLog, _TokensLater, row, codec.decode_logged),
        head=framing.segment_header(request_log.MAGIC),
        base_bytes=4 * MIB,
        share=0.04,
    ),
)
