"""Faults of receivers of notifications, and of the process that sends them: the command never waits for them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway_run import until
from tests.notification_receiver import NotificationReceiver
from tests.process.conftest import Ground

from telemetry.store.backends import writer_folder
from telemetry.wire.snapshot import BackendStat

ERRORS = """
import os, time, telemetry
run = telemetry.start("job")
for number in range(3):
    run.mark(f"error {number}", severity="error")
open("told", "w").close()
while not os.path.exists("enough"):
    time.sleep(0.02)
for number in range(3, 5):
    run.mark(f"error {number}", severity="error")
run.finish()
open("over", "w").close()
"""


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground()
    yield made
    made.close()


@pytest.fixture
def receiver() -> Iterator[NotificationReceiver]:
    with NotificationReceiver() as made:
        yield made


def words(ground: Ground, *urls: str) -> list[str]:
    notify = [word for url in urls for word in ("--notify", url)]
    return ["run", "--name", "job", *notify, "--", sys.executable, ground.program("job.py", ERRORS)]


def run_directory(ground: Ground) -> Path:
    return (ground.folder / "runs" / "latest").resolve()


def status(ground: Ground) -> BackendStat:
    return writer_folder(run_directory(ground), "notify").read_status() or BackendStat(name="notify")


def touch(ground: Ground, name: str) -> None:
    (ground.folder / name).touch()


def errors(receiver: NotificationReceiver) -> list[str]:
    return [title.removeprefix("job: error: ") for title in receiver.titles if "error" in title]


def test_a_receiver_that_is_down_gets_all_of_it_later(ground: Ground, receiver: NotificationReceiver) -> None:
    """A receiver that was down gets all notifications in order and once.

    Another receiver does not wait for it, and the status says which receiver lacks what.
    """
    with NotificationReceiver() as other:
        receiver.is_down = True
        child = ground.telemetry(*words(ground, receiver.url, other.url))
        other.until(lambda: len(errors(other)) == 3)
        receiver.until(lambda: receiver.tries > 1)
        until(lambda: status(ground).state == "retrying", "a status of the receiver that is down")
        assert "3 notifications not delivered to json://***: " in status(ground).last_error
        assert errors(receiver) == []
        receiver.is_down = False
        receiver.until(lambda: len(errors(receiver)) == 3)
        touch(ground, "enough")
        _, err = child.communicate(timeout=90)
        assert child.returncode == 0, err
        wanted = [f"error {number}" for number in range(5)]
        assert errors(receiver) == errors(other) == wanted
        assert receiver.titles[-1].startswith("job ended")
        assert (status(ground).state, status(ground).dropped) == ("done", {})


def test_a_receiver_that_stays_down_costs_no_more_than_the_finish_timeout(
    ground: Ground, receiver: NotificationReceiver
) -> None:
    """The rest is named, kept, and delivered by `telemetry export --resume`."""
    receiver.is_down = True
    child = ground.telemetry(*words(ground, receiver.url), environ={"TELEMETRY_BACKENDS__FINISH_TIMEOUT_S": "3"})
    receiver.until(lambda: receiver.tries > 0)  # else the timeout would have to pay for the start of the sender
    touch(ground, "enough")
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    assert "6 notifications not delivered to json://***" in err
    assert "telemetry export --resume" in err
    assert ground.final()["completeness"] == "complete"
    assert status(ground).state == "undelivered"
    receiver.is_down = False
    code, _, err = ground.run("export", "latest", "--resume", environ={"TELEMETRY_NOTIFY__URLS": receiver.url})
    assert code == 0, err
    assert errors(receiver) == [f"error {number}" for number in range(5)]
    assert receiver.titles[-1].startswith("job ended")


def test_a_receiver_that_hangs_delays_no_command(ground: Ground, receiver: NotificationReceiver) -> None:
    """The command ends meanwhile; at the end `telemetry run` waits for the finish timeout at most."""
    receiver.hangs.clear()
    environ = {"TELEMETRY_BACKENDS__FINISH_TIMEOUT_S": "4"}
    child = ground.telemetry(*words(ground, receiver.url), environ=environ)
    receiver.until(lambda: receiver.tries > 0)
    assert child.poll() is None
    touch(ground, "enough")
    until((ground.folder / "over").exists, "the end of the command")
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    assert not receiver.hangs.is_set()
    assert receiver.got == []
    assert "not delivered to json://***" in err


def test_a_killed_sender_repeats_little_and_leaves_out_nothing(
    ground: Ground, receiver: NotificationReceiver
) -> None:
    """Another process takes its place, at the checkpoint."""
    child = ground.telemetry(*words(ground, receiver.url))
    for kills in range(1, 4):
        receiver.until(lambda: len(set(errors(receiver))) == 3)
        pid = until(lambda: status(ground).pid, "a status of the sender")
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: status(ground).pid not in (0, pid), f"another sender after {kills} kills")  # type: ignore[misc]
    touch(ground, "enough")
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    found = errors(receiver)
    assert set(found) == {f"error {number}" for number in range(5)}
    assert len(found) <= 5 + 3 * 3  # each process may repeat what it sent after its last checkpoint
    assert sum(title.startswith("job ended") for title in receiver.titles) == 1
    checkpoint = json.loads(writer_folder(run_directory(ground), "notify").checkpoint.read_text())
    assert checkpoint["done"] is True
