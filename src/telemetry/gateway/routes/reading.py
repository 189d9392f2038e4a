"""`GET /v1/snapshot`, `/v1/stream` and `/v1/runs`: what the run knows now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from telemetry import limits
from telemetry.errors import TelemetryError
from telemetry.gateway.endpoint import EVENT_STREAM, Answer, Call, Endpoint, Failure, Problem
from telemetry.store.final_snapshot import find_final
from telemetry.store.live_runs import list_live
from telemetry.store.run_directory import list_runs
from telemetry.transport.endpoints import runtime_directory
from telemetry.wire.snapshot import MetricsSnapshot

_IDLE_S: Final = 10.0  # proxies cut a stream without data
_FIRST_S: Final = 2.0
_PART_BYTES: Final = 64 * limits.KIB  # a slow reader holds one part in memory, not a whole snapshot
_RUNS: Final = 100


class StreamQuery(Struct, kw_only=True, frozen=True):
    """How often a stream sends."""

    every_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 1.0
    """Least time between two snapshots, in seconds. 0: each snapshot that the run publishes."""


class Run(Struct, kw_only=True, frozen=True):
    """A run of this machine."""

    run_id: str
    name: str
    state: str
    completeness: str = ""
    """Empty while the run has no result."""
    started_ns: int
    live: bool
    this: bool
    """Whether this gateway serves it."""


class Runs(Struct, kw_only=True, frozen=True):
    """Live runs, then finished ones, each newest first."""

    runs: list[Run]


def newest(call: Call) -> MetricsSnapshot:
    """Return the newest snapshot. Raise Problem if none has arrived."""
    snapshot = call.gateway.run.snapshots.newest
    if snapshot is None:
        raise Problem(503, "no snapshot has arrived yet; try again", headers={"Retry-After": "1"})
    return snapshot


async def get_snapshot(call: Call) -> Answer:
    snapshots = call.gateway.run.snapshots
    if snapshots.newest is None:
        await snapshots.wait(_FIRST_S)
    snapshot = newest(call)
    if "application/msgpack" in call.headers.get("accept", ""):
        return Answer(200, snapshot)
    return Answer(200, snapshots.as_json())


async def get_stream(call: Call) -> Answer:
    every_s = call.query.every_s
    return Answer(
        200, _events(call, every_s), EVENT_STREAM, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )


async def _events(call: Call, every_s: float) -> AsyncIterator[bytes]:
    snapshots = call.gateway.run.snapshots
    loop = asyncio.get_running_loop()
    due_s = 0.0
    async for snapshot in snapshots.each(_IDLE_S):
        if snapshot is None:
            yield b": no news\n\n"
            continue
        if not snapshots.over and loop.time() < due_s:
            continue
        due_s = loop.time() + every_s
        number = str(snapshot.seq).encode()
        yield b"event: snapshot\nid: " + number + b"\ndata: "
        data = snapshots.as_json()
        for start in range(0, len(data), _PART_BYTES):
            yield data[start : start + _PART_BYTES]
        yield b"\n\n"
    yield b"event: end\ndata: {}\n\n"


async def get_runs(call: Call) -> Answer:
    directory = call.gateway.options.runs_dir
    own = call.gateway.run.welcome.run_id
    return Answer(200, Runs(runs=await asyncio.to_thread(_runs, Path(directory) if directory else None, own)))


def _runs(root: Path | None, own: str) -> list[Run]:
    runs = [
        Run(
            run_id=run.run_id,
            name=run.name,
            state=run.state,
            started_ns=run.started_ns,
            live=True,
            this=run.run_id == own,
        )
        for run in list_live(runtime_directory())
        if run.alive
    ]
    live_ids = {run.run_id for run in runs}
    for directory in list_runs(root)[:_RUNS] if root is not None else ():
        if directory.run_id in live_ids:
            continue
        with suppress(TelemetryError):
            final = find_final(directory, ())
            if final is not None:
                head = final.head()
                runs.append(
                    Run(
                        run_id=head.run_id,
                        name=head.name,
                        state=head.state,
                        completeness=head.completeness,
                        started_ns=head.started_ns,
                        live=False,
                        this=head.run_id == own,
                    )
                )
    return runs


ENDPOINTS: Final = (
    Endpoint(
        "GET", "/v1/snapshot", get_snapshot, "Return the newest snapshot", {200: MetricsSnapshot, 503: Failure}
    ),
    Endpoint(
        "GET",
        "/v1/stream",
        get_stream,
        "Follow the run",
        {200: EVENT_STREAM},
        description="Server-sent events: `snapshot` with the id of its number, and `end` after the last one.",
        query=StreamQuery,
    ),
    Endpoint("GET", "/v1/runs", get_runs, "List runs of this machine", {200: Runs}),
)
