"""SIGKILL of the aggregator, at random moments of every state, with and without somebody who starts it again."""

from __future__ import annotations

import json
import os
import random
import resource
import shlex
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

RATE = 20_000
FEW = RATE // 5
HASTE = {"TELEMETRY_EMIT__FINISH_TIMEOUT_S": "1"}
"""Senders that nobody will answer need not wait for long."""
FLUSH_AND_TICK_S = 0.15


class Wrapped:
    """`telemetry run` around senders, and its aggregator of the moment.

    The command ends with all of them or, with `leave`, with the last one: the others live on.
    """

    def __init__(self, ground: Any, crew: Any, faults: Any, *names: str, rate: int = RATE, **how: Any) -> None:
        self.ground, self.crew, self.faults, self.wait_until = ground, crew, faults, crew.wait_until
        made = [crew.words(who, rate=rate) for who in names]
        self.senders = [sender for _, sender in made]
        script = " & ".join(shlex.join(words) for words, _ in made) + ("" if how.get("leave") else " & wait")
        words = ("--name", "job", *how.get("flags", ()), "--", "/bin/sh", "-c", script)
        self.wrapper = ground.telemetry("run", *words, environ=how.get("environ", {}))
        self.wait_until(lambda: all(sender.sent for sender in self.senders), 30.0, "all send")
        (live,) = ground.live()
        self.endpoint, self.pid, self.directory = live["endpoint"], live["pid"], Path(live["dir"])

    def progress(self, events: int) -> None:
        """Each sender records so many more."""
        for sender in self.senders:
            self.crew.progress(sender, events)

    def kill(self) -> None:
        """The aggregator."""
        os.kill(self.pid, signal.SIGKILL)

    def follow(self) -> None:
        """Waits for the next aggregator's process."""
        others = self.wait_until(
            lambda: [pid for pid in self.faults.aggregators(self.ground) if pid != self.pid], 30.0, "a follower"
        )
        self.pid = others[0]

    def end(self) -> str:
        """Tell the senders to end, and return the wrapper's output."""
        for sender in self.senders:
            sender.end()
        return self.said()

    def said(self) -> str:
        _, said = self.wrapper.communicate(timeout=60)
        assert self.wrapper.returncode == 0, said
        return str(said)

    def check_complete(self, *, may_be_cut_off: bool = False) -> None:
        """Check that nothing is missing, nothing came twice, and percentiles are exact.

        With `may_be_cut_off`, a sender may hear of the end of the run before it finishes; then the result names it.
        """
        final = self.ground.final()
        self.faults.check_books(final)
        verdicts = ["complete"]
        if may_be_cut_off and any(one["unfinished"] for one in final["producers"]):
            verdicts = ["incomplete"]
        assert final["state"] == "COMPLETE", final["reason"]
        assert final["completeness"] in verdicts, final["producers"]
        sent = {one.who: one.sent for one in self.senders}
        assert {who: self.faults.first_values(final, who) for who in sent} == sent
        assert final["exact"], final["exact_reason"]
        assert (final["accounting"]["missing"], final["accounting"]["unrepairable"]) == (0, 0)


def test_killed_in_mid_run_it_is_restarted_and_nothing_is_missing(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """Three senders go on while `telemetry run` starts another one: all that they sent is in the result, once. It
    stood still before, so that it had not taken what was in its sockets."""
    wrapped = Wrapped(ground, crew, faults, "a", "b", "c")
    wrapped.progress(chance.randint(1, RATE))
    os.kill(wrapped.pid, signal.SIGSTOP)
    wrapped.progress(FEW)
    wrapped.kill()
    wrapped.follow()
    wrapped.progress(chance.randint(1, RATE // 2))
    assert "restarted" in wrapped.end()
    wrapped.check_complete()


def test_killed_twice_in_a_row(ground: Any, crew: Any, faults: Any, chance: random.Random) -> None:
    """The one that follows is killed while it reads the journal, or has just begun: the third one goes on."""
    wrapped = Wrapped(ground, crew, faults, "a", "b")
    wrapped.progress(chance.randint(1, RATE // 2))
    wrapped.kill()
    wrapped.follow()
    wrapped.progress(chance.randint(1, RATE // 2))  # up to half a second, in which it begins
    wrapped.kill()
    wrapped.follow()
    wrapped.progress(FEW)
    wrapped.end()
    wrapped.check_complete()


def test_killed_while_it_drains(ground: Any, crew: Any, faults: Any, chance: random.Random) -> None:
    """The command has ended, and a sender it left behind stands still: the one that follows drains to the end."""
    wrapped = Wrapped(ground, crew, faults, "left", "last", leave=True)
    left, last = wrapped.senders
    wrapped.progress(chance.randint(1, RATE // 2))
    os.kill(left.pid, signal.SIGSTOP)
    last.end()
    wrapped.wait_until(lambda: faults.status(wrapped.endpoint).state == "DRAINING", 30.0, "a drain")
    for _ in range(chance.randint(0, 100)):
        faults.status(wrapped.endpoint)
    wrapped.kill()
    wrapped.follow()
    left.end()
    os.kill(left.pid, signal.SIGCONT)
    wrapped.said()
    wrapped.check_complete(may_be_cut_off=True)


def test_killed_while_it_drains_and_the_next_one_is_late(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """A sender left behind waits for the next aggregator while somebody is there to start it.

    On a busy machine this takes longer than the sender would wait for one that may never come.
    """
    environ = faults.seam({"FAULT_LIMITS": "RETURN_S=1"})
    wrapped = Wrapped(ground, crew, faults, "left", "last", leave=True, environ=environ)
    left, last = wrapped.senders
    wrapped.progress(chance.randint(1, RATE // 2))
    os.kill(left.pid, signal.SIGSTOP)
    last.end()
    wrapped.wait_until(lambda: faults.status(wrapped.endpoint).state == "DRAINING", 30.0, "a drain")
    wrapped.kill()
    wrapped.follow()
    os.kill(wrapped.pid, signal.SIGSTOP)
    left.end()
    os.kill(left.pid, signal.SIGCONT)
    enough = time.monotonic() + 4.0
    wrapped.wait_until(lambda: time.monotonic() > enough, 30.0, "four seconds")
    os.kill(wrapped.pid, signal.SIGCONT)
    wrapped.said()
    wrapped.check_complete(may_be_cut_off=True)


def reads_journal(pid: int) -> bool:
    """Return whether a process has a segment of a journal open for reading."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if entry.readlink().suffix == ".seg" and entry.readlink().parent.name == "journal":
                flags = (Path(f"/proc/{pid}/fdinfo") / entry.name).read_text().partition("flags:")[2].split()[0]
                if int(flags, 8) & os.O_ACCMODE == os.O_RDONLY:
                    return True
    return False


def test_killed_in_the_exact_pass(ground: Any, crew: Any, faults: Any, chance: random.Random) -> None:
    """All is counted and only the percentiles are not exact yet: the one that follows finds them."""
    environ = faults.seam({"FAULT_LIMITS": "EXACT_EVENTS=25"})  # at once: the pass takes a second
    wrapped = Wrapped(ground, crew, faults, "a", rate=5 * RATE, environ=environ)
    wrapped.progress(5 * RATE)
    wrapped.senders[0].end()
    wrapped.wait_until(lambda: reads_journal(wrapped.pid), 30.0, "the exact pass")
    for _ in range(chance.randint(0, 40)):
        reads_journal(wrapped.pid)  # a moment passes
    wrapped.kill()
    assert not (wrapped.directory / "final_snapshot.json").exists(), "the kill came too late to prove anything"
    wrapped.follow()
    wrapped.said()
    wrapped.check_complete()


def test_killed_in_an_embedded_run_it_is_restarted(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """The program that started the aggregator starts another one, and its own result is complete."""
    sender = crew.send("own", rate=RATE)
    (live,) = ground.live()
    crew.progress(sender, chance.randint(1, RATE))
    os.kill(live["pid"], signal.SIGKILL)
    crew.wait_until(lambda: [pid for pid in faults.aggregators(ground) if pid != live["pid"]], 30.0, "a follower")
    crew.progress(sender, chance.randint(1, RATE // 2))
    sender.end()
    done = sender.done()
    assert (done["source"], done["completeness"], done["missing"]) == ("pubsub", "complete", 0)
    final = ground.final()
    faults.check_books(final)
    assert faults.first_values(final, "own") == sender.sent == done["applied"]


def test_killed_after_its_journal_failed_what_is_missing_is_stated(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """Senders alone keep the events between a full disk and the kill.

    The events that they still have come again, and the rest is missing by number.
    """
    wrapped = Wrapped(ground, crew, faults, "a", "b")
    wrapped.progress(chance.randint(1, RATE // 2))
    hard = resource.prlimit(wrapped.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(wrapped.pid, resource.RLIMIT_FSIZE, (1, hard))
    wrapped.wait_until(lambda: faults.status(wrapped.endpoint).warnings, 30.0, "a journal that failed")
    wrapped.progress(chance.randint(RATE // 2, RATE))
    wrapped.kill()
    wrapped.follow()
    wrapped.progress(FEW)
    wrapped.end()
    final = ground.final()
    faults.check_books(final)
    for sender in wrapped.senders:
        account = faults.account_of(final, sender)
        assert account["emitted"] == account["applied"] + account["missing"] == sender.sent
    assert (final["completeness"], final["exact"]) == ("incomplete", False)
    assert "the journal is incomplete" in final["warnings"][0]
    assert final["accounting"]["missing"] > 0
    assert final["accounting"]["unrepairable"] > 0


def test_killed_after_its_journal_failed_nothing_is_called_complete(ground: Any, crew: Any, faults: Any) -> None:
    """A sender that came and went while the disk was full is in no account.

    It had been told that all was received; no number of the result is wrong, but the result is incomplete.
    """
    wrapped = Wrapped(ground, crew, faults, "a")
    wrapped.progress(FEW)
    (alive,) = wrapped.senders
    os.kill(alive.pid, signal.SIGSTOP)
    received = [-1]

    def quiet() -> bool:
        received.append(faults.status(wrapped.endpoint).accounting.received)
        return received[-1] == received[-2]

    wrapped.wait_until(quiet, 30.0, "all that was on its way has come")
    hard = resource.prlimit(wrapped.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(wrapped.pid, resource.RLIMIT_FSIZE, (1, hard))
    wrapped.wait_until(lambda: faults.status(wrapped.endpoint).warnings, 30.0, "a journal that failed")
    gone = crew.send("gone", endpoint=wrapped.endpoint, events=FEW)
    gone.done()
    wrapped.kill()
    wrapped.follow()
    os.kill(alive.pid, signal.SIGCONT)
    wrapped.end()
    final = ground.final()
    faults.check_books(final)
    assert [one["emitted"] for one in final["producers"]] == [alive.sent]
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "incomplete", False)
    assert "the journal is incomplete" in final["warnings"][0]


def recovered(ground: Any, directory: Path) -> dict[str, Any]:
    """The final file that `telemetry recover` makes."""
    code, _, err = ground.run("recover", str(directory))
    assert code == 0, err
    return dict(ground.final(directory.name))


def taken(wrapped: Wrapped, faults: Any) -> dict[str, int]:
    """Return how many values the aggregator has of each sender.

    Check that it has all but those of a flush period, a tick, and the lag that it reports.
    """
    asked = time.monotonic()
    status = faults.status(wrapped.endpoint)
    kept = {stat.labels["who"]: stat.count for stat in status.series}
    lags_s = [stat.lag_s for stat in status.producers if stat.lag_s is not None]
    behind_s = time.monotonic() - asked + max(lags_s) + FLUSH_AND_TICK_S
    for sender in wrapped.senders:
        assert sender.sent_before(behind_s) <= kept[sender.who], (sender.who, behind_s, lags_s)
    return kept


def test_killed_with_nobody_left_to_restart_it_the_journal_has_the_result(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """Wrapper and aggregator are killed: `ls` calls the run dead, and `recover` finds all that had been applied.
    What power loss does to the journal's end, cut off or rotten, is lost besides."""
    wrapped = Wrapped(ground, crew, faults, "a", "b", environ=HASTE)
    wrapped.progress(chance.randint(RATE, RATE * 3))
    kept = taken(wrapped, faults)
    wrapped.wrapper.kill()
    wrapped.kill()
    for sender in wrapped.senders:
        sender.end()
    wrapped.wrapper.communicate(timeout=60)
    sent = {sender.who: sender.sent for sender in wrapped.senders}
    _, out, _ = ground.run("ls", "--json")
    assert [run["state"] for run in json.loads(out)] == ["DEAD"]
    torn = shutil.copytree(wrapped.directory, wrapped.directory.with_name(wrapped.directory.name + "torn"))
    final = recovered(ground, wrapped.directory)
    faults.check_books(final)
    assert (final["state"], final["completeness"], final["exact"]) == ("INTERRUPTED", "interrupted", True)
    found = {who: faults.first_values(final, who) for who in sent}
    assert all(kept[who] <= found[who] <= sent[who] for who in sent), (kept, found, sent)

    segment = max((torn / "journal").iterdir())
    data = bytearray(segment.read_bytes())
    del data[-chance.randint(1, len(data) // 3) :]
    data[-chance.randint(1, len(data) // 3)] ^= chance.randint(1, 255)
    segment.write_bytes(data)
    final = recovered(ground, torn)
    faults.check_books(final)
    assert all(0 < faults.first_values(final, who) < found[who] + (who != "a") for who in sent)


def test_killed_without_a_journal_it_is_not_restarted_and_the_report_says_what_is_missing(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """`--no-journal`: what the last snapshot held is the result, marked incomplete, and the command goes on."""
    wrapped = Wrapped(ground, crew, faults, "a", flags=("--no-journal",), environ=HASTE)
    wrapped.progress(chance.randint(RATE // 2, RATE))
    wrapped.kill()
    wrapped.progress(FEW)
    said = wrapped.end()
    assert "the run has no journal" in said
    assert "incomplete" in said
    assert not (wrapped.directory / "final_snapshot.json").exists()
