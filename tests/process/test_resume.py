"""An aggregator that is killed and resumed: the same run, the same numbers, nothing twice and nothing lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.processes import KILLED

from telemetry.store.history import HistoryReader
from telemetry.store.live_runs import FILE_NAME
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import frame
from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import End, Ended, Hello, Response, Welcome
from telemetry.wire.events import ClosedStep, Count

PACED = """
import os, sys, time, telemetry
run = telemetry.start("paced")
n, part, value = run.counter("n"), run.counter("part"), run.series("value", unit="ms", who=sys.argv[1])
print("up", flush=True)
made = 0
while not os.path.exists("go"):
    for _ in range(40):
        n.add(1)
        part.add(0.1)
        value.record(made % 1000 + 0.25)
        made += 1
    run.mark(f"{made}")
    time.sleep(0.002)
run.finish()
print(made, flush=True)
"""
REPORTING = """
import os, sys, time, telemetry
run = telemetry.start("reporting")
run.axis("step", reduce="sum", closing="reported")
print("up", flush=True)
step = 0
while not os.path.exists("go"):
    run.log({"a": step}, step=step)
    run.log({"b": 1.0, "c": float("nan")}, step=step)
    time.sleep(0.002)
    if step % 5 != 4:
        run.end_step(step)
    step += 1
run.clear_step(step - 1 - step % 5)
run.finish()
print(step, flush=True)
"""
STUCK = """
import pathlib, threading
from telemetry.aggregator.exact.one_pass import OnePass

def feed(*_):
    pathlib.Path("searching").touch()
    threading.Event().wait()

OnePass.feed = feed
"""
"""Makes the exact pass last for ever."""
DEADLINE_S = 60.0

Essence = Callable[..., dict[str, Any]]
WaitUntil = Callable[..., Any]


class Paced:
    """Two producers that go on until they are told to end, and know what they recorded."""

    def __init__(self, ground: Any, endpoint: str) -> None:
        self._ground = ground
        program = ground.program("paced.py", PACED)
        self._children = [
            ground.popen(sys.executable, program, who, environ={"TELEMETRY_ENDPOINT": endpoint}) for who in "ab"
        ]
        for child in self._children:
            assert child.stdout.readline() == "up\n"

    def end(self) -> list[int]:
        """Return how many events each child recorded with one instrument."""
        (self._ground.folder / "go").touch()
        made = []
        for child in self._children:
            out, err = child.communicate(timeout=DEADLINE_S)
            assert child.returncode == 0, err
            made.append(int(out))
        return made


class Peer:
    """A producer of a few batches, which the test drives by hand."""

    def __init__(self, endpoint: str) -> None:
        self.link = ProducerLink(endpoint, "peer")

    def greet(self, wait_until: WaitUntil) -> None:
        """Says hello until somebody answers."""

        def welcomed() -> Welcome | None:
            self.link.send_control(Hello(id=1, producer="peer"))
            return next((item for item in self.hear() if isinstance(item, Welcome)), None)

        self.link.connect_events(wait_until(welcomed, DEADLINE_S, "a welcome").events)

    def close(self) -> None:
        self.link.close(0.0)

    def hear(self) -> list[Response]:
        return self.link.receive_control(0.1)

    def send(self, wait_until: WaitUntil, seq: int) -> None:
        data = frame("peer", seq, seq, records=[Count("n", 2.0)])
        wait_until(lambda: self.link.receive_control() is not None and self.link.send_events(data), DEADLINE_S)

    def end(self, wait_until: WaitUntil, batches: int) -> None:
        """Says so until it is answered."""

        def answered() -> bool:
            self.link.send_control(End(id=3, producer="peer", batches=batches, emitted=batches))
            return any(isinstance(item, Ended) for item in self.hear())

        wait_until(answered, DEADLINE_S, "the answer to end")


def status(ground: Any) -> dict[str, Any]:
    code, out, err = ground.run("status", "job", "--json")
    assert code == 0, err
    return dict(json.loads(out))


def applied(ground: Any) -> int:
    return int(status(ground)["accounting"]["applied"])


def kill(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def resume(ground: Any, **options: Any) -> tuple[subprocess.Popen[str], str]:
    """The aggregator that follows, and its address."""
    child = ground.telemetry("serve", "--resume", "latest", **options)
    said = [child.stderr.readline() for _ in range(2)]
    assert "TELEMETRY_ENDPOINT=" in said[-1], said
    return child, said[-1].strip().rpartition("=")[2]


def finish(ground: Any, child: subprocess.Popen[str]) -> dict[str, Any]:
    code, _, err = ground.run("stop", "job")
    assert code == 0, err
    child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0
    return dict(ground.final())


def segments(ground: Any) -> list[Path]:
    return sorted((ground.folder / "runs" / "latest" / "journal").iterdir())


def check_whole(final: dict[str, Any], made: list[int]) -> None:
    """All that was recorded is in the numbers, once."""
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), final["producers"]
    assert final["exact"], final["exact_reason"]
    values = {counter["name"]: counter["value"] for counter in final["counters"]}
    assert values["n"] == sum(made)
    assert values["part"] == pytest.approx(sum(made) * 0.1, rel=1e-12)
    counts = {series["labels"]["who"]: series["count"] for series in final["series"]}
    assert counts == dict(zip("ab", made, strict=True))
    assert final["accounting"]["missing"] == 0


def test_a_run_goes_on_after_its_aggregator_was_killed(
    ground: Any, wait_until: WaitUntil, essence: Essence
) -> None:
    """Same directory, addresses and numbers; a new epoch, higher snapshot numbers; history and records whole."""
    first, endpoint = ground.serve()
    paced = Paced(ground, endpoint)
    wait_until(lambda: status(ground)["elapsed_s"] > 2.2, DEADLINE_S, "intervals of the history")
    before = status(ground)
    kill(first)
    second, again = resume(ground)
    assert again == endpoint
    wait_until(lambda: applied(ground) > before["accounting"]["applied"] + 5_000, DEADLINE_S, "more events")
    after = status(ground)
    assert after["epoch"] != before["epoch"]
    assert after["seq"] > before["seq"]
    same = ("run_id", "name", "started_ns", "directory")
    assert [after[key] for key in same] == [before[key] for key in same]
    made = paced.end()
    final = finish(ground, second)
    check_whole(final, made)
    assert len(list((ground.folder / "runs").glob("job-*"))) == 1
    directory = RunDirectory.open(ground.folder / "runs" / "latest")
    records = RecordLog(directory.records).read(0, 1_000_000)
    assert [record.seq for record in records] == list(range(len(records)))
    assert len(records) == sum(made) // 40
    intervals = list(HistoryReader(directory.history).intervals(level_s=1))
    assert all(one.end_ns == other.start_ns for one, other in pairwise(intervals))
    assert intervals[0].start_ns == final["started_ns"]
    assert list((ground.folder / "telemetry").iterdir()) == []
    assert ground.run("replay", "latest", "--speed", "max")[0] == 0
    (replayed,) = (ground.folder / "runs").glob("replay-of-job-*")
    assert essence(ground.final(replayed.name)) == essence(final), "two lives are one journal"


def test_reported_steps_survive_a_killed_aggregator(ground: Any, wait_until: WaitUntil) -> None:
    """Each is closed once with all its values, by its report alone; those without a report stay open to the end,
    and one of them is forgotten.
    """
    first, endpoint = ground.serve()
    program = ground.program("reporting.py", REPORTING)
    child = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint})
    assert child.stdout.readline() == "up\n"
    wait_until(lambda: applied(ground) > 1_000, DEADLINE_S, "events")
    for _ in range(2):
        kill(first)
        first, _ = resume(ground)
        before = applied(ground)
        wait_until(lambda before=before: applied(ground) > before + 1_000, DEADLINE_S, "more events")
    (ground.folder / "go").touch()
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    count = int(out)
    final = finish(ground, first)
    assert final["completeness"] == "complete", final["accounting"]
    directory = RunDirectory.open(ground.folder / "runs" / "latest")
    records = [record.record for record in RecordLog(directory.records).read(0, 1_000_000)]
    steps = [record for record in records if isinstance(record, ClosedStep)]
    cleared = count - 1 - count % 5
    assert sorted(step.step for step in steps) == [step for step in range(count) if step != cleared]
    for step in steps:
        assert step.values == {"a": float(step.step), "b": 1.0, "c": None}
        assert (step.closed, step.revision) == ("run_end" if step.step % 5 == 4 else "ended", 0)
    (axis,) = final["axes"]
    assert (axis["producers"], axis["timeouts"], axis["corrections"], axis["open"]) == (0, 0, 0, 0)


@pytest.mark.slow
def test_killed_again_and_again(ground: Any, wait_until: WaitUntil) -> None:
    """Each death costs nothing, also one right after the one before."""
    child, endpoint = ground.serve()
    paced = Paced(ground, endpoint)
    for _ in range(3):
        seen = applied(ground)
        wait_until(lambda seen=seen: applied(ground) > seen + 3_000, DEADLINE_S, "events")
        kill(child)
        child, _ = resume(ground)
        kill(child)
        child, _ = resume(ground)
    made = paced.end()
    check_whole(finish(ground, child), made)


def test_over_tcp_the_ports_stay_the_same(ground: Any, wait_until: WaitUntil) -> None:
    """A resumed aggregator has the same ports, those that the system chose, too. Peers know no others."""
    first, endpoint = ground.serve("--bind", "tcp://127.0.0.1:*")
    paced = Paced(ground, endpoint)
    wait_until(lambda: applied(ground) > 1_000, DEADLINE_S, "events")
    kill(first)
    second, again = resume(ground)
    assert again == endpoint
    made = paced.end()
    check_whole(finish(ground, second), made)


def test_killed_while_it_drains(ground: Any, wait_until: WaitUntil) -> None:
    """An aggregator that was killed while it drains goes on draining for the same reason.

    The resumed aggregator takes the last batches and the end.
    """
    first, endpoint = ground.serve()
    with closing(Peer(endpoint)) as peer:
        peer.greet(wait_until)
        peer.send(wait_until, 0)
        wait_until(lambda: applied(ground) == 1, DEADLINE_S)
        assert ground.run("stop", "job", "--no-wait", "--reason", "enough")[0] == 0
        wait_until(lambda: status(ground)["state"] == "DRAINING", DEADLINE_S)
        kill(first)
        second, _ = resume(ground)
        peer.greet(wait_until)
        assert status(ground)["state"] == "DRAINING"
        peer.send(wait_until, 0)
        peer.send(wait_until, 1)
        peer.end(wait_until, 2)
    second.communicate(timeout=DEADLINE_S)
    final = ground.final()
    assert (final["state"], final["completeness"], final["reason"]) == ("COMPLETE", "complete", "enough")
    assert final["counters"][0]["value"] == 4
    assert final["accounting"]["duplicates"] == 1


def test_killed_while_it_finds_exact_percentiles(ground: Any, wait_until: WaitUntil) -> None:
    """An aggregator that is killed in the exact pass has written no result.

    The next one does the pass again and ends at once.
    """
    site = ground.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(STUCK)
    first, endpoint = ground.serve(environ={"PYTHONPATH": str(site)})
    paced = Paced(ground, endpoint)
    made = paced.end()
    assert ground.run("stop", "job", "--no-wait", "--reason", "enough")[0] == 0
    wait_until((ground.folder / "searching").exists, DEADLINE_S, "the exact pass")
    kill(first)
    assert not (ground.folder / "runs" / "latest" / "final_snapshot.json").exists()
    second, _ = resume(ground)
    second.communicate(timeout=DEADLINE_S)
    final = ground.final()
    check_whole(final, made)
    assert final["reason"] == "enough"


STEPS = """
import time, telemetry
run = telemetry.start("steps")
value = run.series("value", unit="ms")
for step in range(5):
    value.record(step + 0.25)
    run.log({"loss": step}, step=step, axis="train")
time.sleep(600)
"""


@pytest.mark.parametrize("closer", ["the run", "recover"])
def test_killed_once_its_books_are_closed(ground: Any, wait_until: WaitUntil, closer: str) -> None:
    """The next aggregator knows which steps were said, whoever closed them: none is said twice, nothing is lost."""
    site = ground.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(STUCK)
    stuck = {"PYTHONPATH": str(site)}
    first, endpoint = ground.serve(environ=stuck)
    job = ground.popen(sys.executable, ground.program("steps.py", STEPS), environ={"TELEMETRY_ENDPOINT": endpoint})
    wait_until(lambda: applied(ground) == 10, DEADLINE_S, "events")
    kill(job)
    if closer == "the run":
        assert ground.run("stop", "job", "--no-wait", "--reason", "enough")[0] == 0
    else:
        kill(first)
        first = ground.telemetry("recover", "latest", environ=stuck)
    wait_until((ground.folder / "searching").exists, DEADLINE_S, "the exact pass")
    kill(first)
    directory = RunDirectory.open(ground.folder / "runs" / "latest")
    assert not directory.final.exists()
    second, _ = resume(ground)
    if closer == "recover":
        assert ground.run("stop", "job")[0] == 0
    second.communicate(timeout=DEADLINE_S)
    said = [item.record for item in RecordLog(directory.records).read(0, 100)]
    assert [(step.step, step.closed, step.revision) for step in said] == [  # type: ignore[union-attr]
        *((step, "ended", 0) for step in range(4)),
        # a run that reads the ring of a killed program knows that nothing follows
        (4, "ended" if KILLED == "complete" and closer == "the run" else "run_end", 0),
    ]
    final = ground.final()
    (axis,) = final["axes"]
    assert (axis["closed"], axis["open"], axis["corrections"]) == (5, 0, 0)
    assert (final["exact"], final["accounting"]["applied"]) == (True, 10)
    (restarted,) = final["warnings"]
    assert "restarted once" in restarted


def test_killed_right_after_its_start(ground: Any) -> None:
    """There is a checkpoint to begin with, and nobody has to know that there was another aggregator."""
    first, endpoint = ground.serve()
    kill(first)
    second, _ = resume(ground)
    paced = Paced(ground, endpoint)
    made = paced.end()
    check_whole(finish(ground, second), made)


def test_a_torn_tail_is_cut_and_said(ground: Any, wait_until: WaitUntil) -> None:
    """A torn tail, which a dying machine leaves, is cut and is no damage.

    The percentiles are exact nevertheless.
    """
    first, endpoint = ground.serve()
    paced = Paced(ground, endpoint)
    wait_until(lambda: applied(ground) > 1_000, DEADLINE_S, "events")
    kill(first)
    with segments(ground)[-1].open("ab") as file:
        file.write(b"half a frame")
    second, _ = resume(ground)
    made = paced.end()
    final = finish(ground, second)
    check_whole(final, made)
    warning, restarted = final["warnings"]
    assert "restarted once" in restarted
    assert re.fullmatch(r"the journal ended with [\d,]+ incomplete bytes, which are skipped", warning)


LEFT = """
import os, sys, time, telemetry
from telemetry.client.process import PROCESS
from telemetry.report import render
run = telemetry.start("joined")
n = run.counter("n")
for _ in range(5_000):
    n.add(1)
while PROCESS.flusher._conversation.ring.taken < 5_000:
    time.sleep(0.01)
print("up", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
for _ in range(700):
    n.add(1)
if sys.argv[1] == "finishes":
    print(render(run.finish()))
"""


@pytest.mark.parametrize("how", ["finishes", "just ends"])
def test_a_program_whose_aggregator_is_dead_for_good_says_so(ground: Any, how: str) -> None:
    """The program says once how many events were not acknowledged, and how the rest become a result.

    The program's own report claims nothing that it does not know, and `recover` finds the events that it counts as
    received.
    """
    aggregator, endpoint = ground.serve()
    environ = {"TELEMETRY_ENDPOINT": endpoint, "TELEMETRY_EMIT__FINISH_TIMEOUT_S": "3"}
    child = ground.popen(sys.executable, ground.program("left.py", LEFT), how, environ=environ)
    assert child.stdout.readline() == "up\n"
    kill(aggregator)
    (ground.folder / "go").touch()
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    directory = (ground.folder / "runs" / "latest").resolve()
    recover = f"`telemetry recover {directory}` makes a result of the events that arrived"
    why = f"the aggregator at {endpoint} is gone"
    assert err == f"telemetry: 700 events were not acknowledged and may be lost: {why}; {recover}\n"
    if how == "finishes":
        assert "".join(recover.split()) in "".join(out.split()), "lines are as long as the terminal"
        assert "700 events of this program were not acknowledged and may be lost" in out
        assert "never arrived" not in out
        assert re.search(r"joined .* 5,000 +5,000 +5,000", out), out
    code, _, _ = ground.run("recover", "latest")
    assert code == 0
    assert ground.final()["accounting"]["applied"] == 5_000


def test_a_run_that_has_ended_is_not_resumed(ground: Any) -> None:
    """The command says that a run that has ended is not resumed, and exits with 0. The result stays as it is."""
    child, _ = ground.serve()
    final = finish(ground, child)
    code, out, err = ground.run("serve", "--resume", "latest")
    assert (code, out) == (0, "")
    assert "nothing to resume: the run has already ended" in err
    assert ground.final() == final


def test_a_run_that_is_alive_is_left_alone(ground: Any, wait_until: WaitUntil) -> None:
    """One aggregator a run, and the other one hears why."""
    child, endpoint = ground.serve()
    code, out, err = ground.run("serve", "--resume", "latest")
    assert (code, out) == (1, "")
    assert "live aggregator" in err
    assert err.count("\n") == 1
    paced = Paced(ground, endpoint)
    made = paced.end()
    check_whole(finish(ground, child), made)


@pytest.mark.parametrize("what", ["no journal", "a journal nobody can read", "no run"])
def test_what_cannot_be_resumed_is_one_line(ground: Any, what: str) -> None:
    """A run that cannot be resumed gives one line, with what to do about it."""
    child, _ = ground.serve(*(["--no-journal"] if what == "no journal" else []))
    kill(child)
    if what == "a journal nobody can read":
        segments(ground)[0].write_bytes(b"noise")
    code, out, err = ground.run("serve", "--resume", "nobody" if what == "no run" else "latest")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith("telemetry: ")
    assert err.endswith(")\n"), "there is a hint"


def test_flags_that_the_run_decides_are_refused(ground: Any) -> None:
    """A name or no journal can't be had later."""
    code, _, err = ground.run("serve", "--resume", "latest", "--name", "other", "--no-journal")
    assert code == 2
    assert "--name, --no-journal" in err


def test_a_socket_outside_of_the_own_folder_is_resumed_with_bind(ground: Any) -> None:
    """Anybody may have written the manifest. So its address needs `--bind`, as the error says."""
    address = f"ipc://{ground.folder / 'here'}"
    dead, _ = ground.serve("--bind", address)
    dead.kill()
    dead.communicate()
    for announcement in (ground.folder / "telemetry").glob(f"*/{FILE_NAME}"):
        announcement.unlink()
    code, _, err = ground.run("serve", "--resume", "latest")
    assert (code, f"if this address is yours, add --bind {address}" in err) == (1, True), err
    resumed = ground.telemetry("serve", "--resume", "latest", "--bind", address)
    assert "continues with" in resumed.stderr.readline()
    assert ground.run("stop", "latest")[0] == 0
    assert resumed.wait(DEADLINE_S) == 0
