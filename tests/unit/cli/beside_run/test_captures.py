"""Tests of the reports about the captures of a command.

The reports use their signs and the producers of the run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from telemetry.cli.beside_run.captures import Captures
from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.integrations.capture.capture_log import not_imported, read_signs
from telemetry.testing.clock import FakeClock
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

if TYPE_CHECKING:
    from telemetry.cli.wrapped.command import Job

HERE = os.uname().nodename
NO_SIGN = "no Python process of the command reported that it is captured"


class Feed(Participant):
    """A participant whose process records: 3."""

    @property
    def pids(self) -> list[int]:
        return [3]


def report(*producers: ProducerStat) -> Report:
    """Return the result of a run without data."""
    snapshot = MetricsSnapshot(run_id="r", name="job", state="COMPLETE", elapsed_s=1.0, producers=list(producers))
    return Report(snapshot=snapshot, source="pubsub")


class Command:
    """A command with two captures."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.clock = FakeClock()
        self.folder = folder
        self.log = folder / "capture.log"
        self.captures = self.begun()

    def begun(self, *, is_reported: bool = False) -> Captures:
        """Return the captures of the command, which has started."""
        captures = Captures(
            ["logging,wandb"],
            [],
            self.said.append,
            recorders=[Feed()],
            is_reported=is_reported,
            now=lambda: self.clock.monotonic_ns() / 1e9,
        )
        captures.begin(BegunRun("job", "ipc:///run", str(self.folder)))
        captures.accompany(cast("Job", None))
        return captures

    def conclude(self, *producers: ProducerStat) -> None:
        self.captures.conclude(report(*producers))

    def signs(self, *signs: str) -> None:
        self.log.write_text("".join(f"1 {sign}\n" for sign in signs))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def producer(host: str = HERE, pid: int = 7, emitted: int = 1) -> ProducerStat:
    return ProducerStat(producer="p", host=host, pid=pid, emitted=emitted)


def test_a_missing_sign_is_told_once(command: Command) -> None:
    """A missing sign is told while the command runs, and not again when it ends."""
    command.captures.look(None)
    assert command.said == []
    command.clock.advance(11.0)
    command.captures.look(None)
    command.captures.look(None)
    command.conclude()
    (line,) = command.said
    assert line.startswith(NO_SIGN)
    assert f"on another host or in a container and can't write {command.log}" in line
    assert command.captures.failed


def test_a_sign_that_comes_late_is_used(command: Command) -> None:
    """A command may prepare itself for minutes before it starts Python."""
    command.clock.advance(11.0)
    command.captures.look(None)
    command.signs("booted python", "hooked logging", "hooked wandb")
    command.conclude()
    assert len(command.said) == 1
    assert not command.captures.failed


@pytest.mark.parametrize(
    ("one", "failed"),
    [
        (producer(), False),
        (producer("other"), False),
        (producer(emitted=0), True),
        (producer(pid=3), True),
        (producer("other", pid=3), False),
    ],
    ids=["of this host", "of another host", "that recorded nothing", "of a feed", "of another host with that id"],
)
def test_without_a_sign_a_producer_counts_as_captured(command: Command, one: ProducerStat, failed: bool) -> None:
    """A producer without a sign counts as captured, as its process may be unable to write.

    Feeds are none of the command.
    """
    command.conclude(one)
    assert command.captures.failed is failed
    assert [line[: len(NO_SIGN)] for line in command.said] == [NO_SIGN]


def test_with_a_sign_of_this_host_only_other_hosts_may_be_captured_unseen(command: Command) -> None:
    """A launcher in Python starts its workers elsewhere."""
    command.signs("booted python")
    command.conclude(producer("other"))
    assert not command.captures.failed
    assert command.said == []
    command.conclude(producer())
    assert command.captures.failed
    [line] = command.said
    assert line.startswith(f"nothing to capture: {not_imported(['logging', 'wandb'])}")
    command.begun(is_reported=True).conclude(report(producer()))
    assert command.said == [line]


@pytest.mark.parametrize(
    ("sign", "line"),
    [
        ("absent logging /bin/python", "logging was not captured: telemetry is not installed for /bin/python; "),
        ("hidden logging /a/telemetry.py", "logging was not captured: the program has a module named telemetry ("),
        ("failed can't hook into x", "a capture failed: can't hook into x"),
    ],
)
def test_a_reason_is_told_and_is_a_failure(command: Command, sign: str, line: str) -> None:
    """A reason is reported and is a failure, also if the program records something by itself."""
    command.signs("booted python", sign)
    command.conclude(producer("other"))
    assert command.captures.failed
    assert command.said[0].startswith(line)


def test_the_file_of_signs_begins_with_the_captures(command: Command) -> None:
    """The file of signs begins with the captures, for the report's advice on those without a value.

    Only the owner can read the file.
    """
    signs = read_signs(str(command.log.parent))
    assert (signs.wanted, signs.booted, signs.hooked) == (["logging", "wandb"], 0, {})
    assert command.log.stat().st_mode & 0o777 == 0o600


def test_one_captured_library_is_enough(command: Command) -> None:
    """The others are named."""
    command.signs("booted python", "hooked logging", "absent logging /bin/python")
    command.conclude()
    assert not command.captures.failed
    assert command.said == [f"nothing to capture: {not_imported(['wandb'])}"]
