"""A root that another process has started, such as `telemetry run --ray`."""

from __future__ import annotations

import time
from collections.abc import Set
from typing import Final

from telemetry.errors import TelemetryError, UsageError
from telemetry.supervise.outcome import second_best
from telemetry.supervise.run_files import RunFiles
from telemetry.transport.client import ControlClient, hello
from telemetry.transport.endpoints import (
    TCP,
    is_loopback,
    is_tcp,
    refuses,
    seen_from,
    split_key,
    with_key,
)
from telemetry.transport.keys import of_user
from telemetry.transport.subscription import Subscription
from telemetry.wire.control import Stop
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

_LOOK_AGAIN_S: Final = 0.2


def reachable_root(endpoint: str, address: str, hosts: Set[str]) -> str:
    """Return the address of a root as all nodes of the cluster reach it.

    `address` is the one of this node, `hosts` those of all nodes. Raises UsageError if the root reaches only this
    machine but there are others, KeysError for an unknown key.
    """
    plain, key = split_key(endpoint)
    if key:
        endpoint = with_key(plain, of_user().resolve(key).decode())
    if not (hosts - {address}) or (is_tcp(endpoint) and not is_loopback(endpoint)):
        return endpoint
    if is_tcp(endpoint):
        outside = seen_from(f"{TCP}0.0.0.0:{plain.rpartition(':')[2]}", f"{TCP}{_host(address)}:1")
        if not refuses(outside):
            return with_key(outside, split_key(endpoint)[1])
    raise UsageError(
        f"{endpoint} reaches only this machine, but the Ray cluster has others",
        hint="use `telemetry run --ray`, or `telemetry serve --bind tcp://ADDRESS:PORT` with keys",
    )


def end_root(endpoint: str, files: RunFiles, timeout_s: float) -> Report:
    """Ask a root to end and return its result, or the best one after `timeout_s`. Never raises."""
    newest = None
    if files.has_result():
        return second_best(files, None, "the run had ended before")
    try:
        snapshots = Subscription(seen_from(hello(endpoint).snapshots, endpoint))
    except TelemetryError as error:
        return second_best(files, None, error.message)
    with snapshots:
        try:
            with ControlClient(endpoint) as client:
                client.request(Stop(reason="finished"))
        except TelemetryError as error:
            return second_best(files, snapshots.newest, f"can't ask the root to stop: {error.message}")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            newest = snapshots.recv(_LOOK_AGAIN_S) or newest
            if newest is not None and newest.state in TERMINAL:
                return Report(snapshot=newest, source="pubsub")
            if newest is None and files.has_result():
                break
    return second_best(files, newest, f"the root published no final snapshot within {timeout_s:g} s")


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
