"""Tests of errors of Trackio's database and server. Tests with both of them are in tests/backends."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.items import Artifact, Mark
from telemetry.backends.trackio.backend import TrackioIdentity, asked_of, iso, passing, said_with

pytestmark = pytest.mark.sdk

IDENTITY = TrackioIdentity("bench", "bench-1", "id-1")


def answers(code: int, text: str) -> Exception:
    request = httpx.Request("POST", "http://there/api/bulk_log")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(code, text=text, request=request))


def raising(error: Exception) -> Callable[[], Any]:
    def call() -> None:
        raise error

    return call


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("database is locked"),
        httpx.ConnectTimeout("slow"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        OSError(errno.ENOSPC, "No space left on device"),
        answers(500, "oh"),
        answers(429, "wait"),
    ],
)
def test_what_may_pass(error: Exception) -> None:
    """Locks, networks, full disks and servers in trouble."""
    with pytest.raises(Unavailable):
        passing(raising(error))


@pytest.mark.parametrize("error", [answers(401, ""), answers(400, '{"error":"A write_token is required"}')])
def test_a_token_that_is_none(error: Exception) -> None:
    """A token that is missing or wrong is an error that does not pass.

    The message tells where to put the right one.
    """
    with pytest.raises(NotConfigured, match="TRACKIO_WRITE_TOKEN"):
        passing(raising(error))


@pytest.mark.parametrize("error", [answers(400, "what?"), PermissionError(errno.EACCES, "no"), ValueError("bad")])
def test_what_will_not_pass_stays_what_it_is(error: Exception) -> None:
    """The writer finds out which item it is."""
    with pytest.raises(type(error)):
        passing(raising(error))


def test_what_works_is_returned() -> None:
    """The value of a call that works is returned as it is."""
    assert passing(lambda: 7) == 7


def test_keys_are_of_one_run() -> None:
    """Two runs of one project have items of the same key."""
    assert IDENTITY.key("r1") == "id-1/r1"


def test_times_are_utc() -> None:
    """Times are in UTC, as Trackio writes them."""
    assert iso(1_500_000_000) == "1970-01-01T00:00:01.500000+00:00"


def test_a_mark_is_said_with_its_labels() -> None:
    """A mark is reported with its labels and its producer."""
    mark = Mark(key="r1", time_ns=1, text="warm", producer="p", labels={"rank": "0"})
    assert said_with(mark) == "producer=p, rank=0"
    assert said_with(Mark(key="r1", time_ns=1, text="warm")) is None


def test_an_artifact_is_a_reference() -> None:
    """An artifact is a reference under a name and an address that Trackio takes."""
    item = Artifact(key="r1", time_ns=1, name="best/ü model", uri="s3://bucket/my model.bin", axis="train", step=3)
    asked = asked_of(IDENTITY, item, "model")
    assert (asked["name"], asked["type"], asked["run_id"]) == ("best.2F.C3.BC.20model", "model", "id-1")
    uri = "s3://bucket/my%20model.bin"
    assert asked["manifest"] == [{"path": "my%20model.bin", "ref": uri, "digest": uri, "size": 0}]
    assert asked["metadata"] == {"name": "best/ü model", "axis": "train", "step": 3}
    here = Artifact(key="r1", time_ns=1, name="m", uri="/data/my model.bin")
    assert asked_of(IDENTITY, here, "model")["manifest"][0]["ref"] == "file:///data/my%20model.bin"
