"""Producers in real processes, with a real aggregator: forks, pools, exits, and an aggregator that dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 90.0
PRELUDE = """
import json, os, sys, threading, time
import telemetry

def tell(run):
    stats = {stat.name: stat.value for stat in run.report.snapshot.counters}
    account = run.report.snapshot.accounting
    print(json.dumps({
        "source": run.report.source, "reason": run.report.source_reason, "state": run.report.state,
        "completeness": run.report.completeness, "counters": stats, "lost": account.lost,
        "emitted": account.emitted, "producers": len(run.report.snapshot.producers),
        "directory": run.report.directory,
    }))
"""


class Done:
    """The output of a script: JSON lines on stdout, talk on stderr."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.said = done.stderr
        self.told: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]


Script = Callable[..., Done]


@pytest.fixture
def script(short_dir: Path) -> Script:
    """`script(body)` runs a program in a directory of its own; its runs are in `runs` there."""

    def run(body: str, **environ: str) -> Done:
        path = short_dir / "job.py"
        path.write_text(PRELUDE + textwrap.dedent(body))
        env = {**os.environ, "XDG_RUNTIME_DIR": str(short_dir), "PYTHONWARNINGS": "error", **environ}
        env["TELEMETRY_EMIT__QUIET"] = "true"  # what is said besides the two lines at the end
        env.pop("TELEMETRY_ENDPOINT", None)
        return Done(
            subprocess.run(
                [sys.executable, str(path)],
                cwd=short_dir,
                env=env,
                text=True,
                capture_output=True,
                timeout=DEADLINE_S,
                check=False,
            )
        )

    return run


def final(folder: Path) -> Any:
    return json.loads((folder / "runs" / "latest" / "final_snapshot.json").read_text())


def counters(snapshot: Any) -> dict[str, float]:
    return {stat["name"]: stat["value"] for stat in snapshot["counters"]}


def test_the_spawner_ends_the_run(script: Script) -> None:
    """The report comes from the aggregator's last publication; the endpoint is gone from the environment."""
    done = script("""
        with telemetry.start("job") as run:
            assert os.environ["TELEMETRY_ENDPOINT"] == run.endpoint
            run.counter("n").add(3)
        assert "TELEMETRY_ENDPOINT" not in os.environ
        tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    [told] = done.told
    assert (told["source"], told["reason"], told["state"]) == ("pubsub", "", "COMPLETE")
    assert (told["completeness"], told["counters"], told["lost"]) == ("complete", {"n": 3}, 0)


def test_two_runs_one_after_the_other(script: Script) -> None:
    """Two runs in one process, as in a notebook, share no numbers and have a directory each."""
    done = script("""
        count = telemetry.counter("n")
        for value in (1, 2):
            with telemetry.start("job") as run:
                count.add(value)
            tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    assert [told["counters"] for told in done.told] == [{"n": 1}, {"n": 2}]
    assert len({told["directory"] for told in done.told}) == 2


def test_a_program_that_just_ends_leaves_a_complete_result(script: Script, short_dir: Path) -> None:
    """A program that just ends leaves a complete result without a call of finish."""
    done = script("""
        telemetry.start("job")
        telemetry.counter("n").add(5)
    """)
    assert (done.code, done.said) == (0, "")
    snapshot = final(short_dir)
    assert (snapshot["state"], snapshot["completeness"], counters(snapshot)) == ("COMPLETE", "complete", {"n": 5})


def test_events_after_finish_are_said_once_at_exit(script: Script) -> None:
    """Events after finish are reported once at exit and never raise."""
    done = script("""
        run = telemetry.start("job")
        count = run.counter("n")
        run.finish()
        for _ in range(3):
            count.add()
    """)
    assert done.code == 0
    assert done.said.count("\n") == 1
    assert "3 events were recorded after finish() and are not in the result" in done.said


def test_events_after_the_exit_hooks_are_said(script: Script) -> None:
    """Events after the exit hooks are reported once, with no other message.

    Objects of a program are destroyed after all of its exit functions.
    """
    done = script("""
        telemetry.start("job")

        class Kept:
            count = telemetry.counter("n")

            def __del__(self, mark=telemetry.mark):
                for _ in range(1000):
                    self.count.add()
                mark("too late")

        kept = Kept()
    """)
    assert done.code == 0
    assert done.said.count("\n") == 1
    assert "events recorded while the program was ending are not in the result" in done.said


def test_a_forked_child_is_a_producer_of_its_own(script: Script) -> None:
    """A forked child uses recorders that the parent had bound.

    What the parent had not sent yet is not sent twice.
    """
    done = script("""
        run = telemetry.start("job", flush_ms=200)
        add = run.counter("n").add
        add(1)
        children = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                for _ in range(1000):
                    add(1)
                run.mark("child")
                sys.exit(0)
            children.append(pid)
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
        run.finish()
        tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    [told] = done.told
    assert (told["counters"], told["producers"], told["completeness"]) == ({"n": 3001}, 4, "complete")


def test_requests_of_a_parent_are_not_the_childs(script: Script) -> None:
    """A forked child has requests of its own, of the same kind and in the window it was born in.

    The parent's requests go on in the parent.
    """
    done = script("""
        with telemetry.start("job") as run:
            llm = run.requests("llm")
            with run.tracking("w"):
                parents = llm.issue(key="k", conversation="c")
                pid = os.fork()
                if pid == 0:
                    assert llm.in_flight == 0
                    with llm.issue(key="k"):
                        assert llm.in_flight == 1
                    parents.fail()
                    sys.exit(0)
                assert os.waitpid(pid, 0)[1] == 0
                llm.find("k").complete()
        tell(run)
        told = [(stat.name, stat.labels, stat.count) for stat in run.report.snapshot.series]
        print(json.dumps(told))
    """)
    assert (done.code, done.said) == (0, "")
    told, series = done.told
    nothing = {"llm.failed": 0, "llm.expired": 0}
    assert told["counters"] == {"llm.issued": 2, "llm.completed": 2, "llm.after_end": 1, **nothing}
    window = {"window": "w"}
    counts = {name: count for name, labels, count in series if labels == window}
    assert counts == {"llm.latency": 2, "llm.conversation.turns": 1, "llm.conversation.duration": 1}
    assert (told["completeness"], told["producers"], told["lost"]) == ("complete", 2, 0)


def test_a_forked_child_that_records_nothing_is_no_producer(script: Script) -> None:
    """A forked child that records nothing may be about to execute something else. The run does not wait for it."""
    done = script("""
        run = telemetry.start("job")
        run.counter("n").add(1)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        run.finish()
        tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    assert (done.told[0]["producers"], done.told[0]["completeness"]) == (1, "complete")


def test_a_child_of_the_spawner_does_not_end_the_run(script: Script) -> None:
    """The finish of a child is its own, and the parent goes on."""
    done = script("""
        run = telemetry.start("job")
        count = run.counter("n")
        pid = os.fork()
        if pid == 0:
            assert telemetry.start("other") is run
            count.add(10)
            run.finish()
            tell(run)
            sys.exit(0)
        os.waitpid(pid, 0)
        count.add(1)
        run.finish()
        tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    child, parent = done.told
    assert (child["source"], child["state"], child["counters"]) == ("status", "LIVE", {"n": 10})
    assert (parent["state"], parent["counters"], parent["completeness"]) == ("COMPLETE", {"n": 11}, "complete")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_count(script: Script, method: str) -> None:
    """`atexit` does not run in them; instruments travel as arguments."""
    done = script(f"""
        import multiprocessing

        def work(count, times):
            for _ in range(times):
                count.add()
            telemetry.counter("module").add()

        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            with telemetry.start("job") as run:
                count = run.counter("n")
                workers = [context.Process(target=work, args=(count, 500)) for _ in range(3)]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
            tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    [told] = done.told
    assert told["counters"] == {"n": 1500, "module": 3}
    assert (told["completeness"], told["lost"]) == ("complete", 0)


def test_children_that_nobody_joined_are_in_the_result(script: Script, short_dir: Path) -> None:
    """The run ends at exit after multiprocessing has waited for its children."""
    done = script("""
        import multiprocessing

        def work():
            time.sleep(0.5)
            telemetry.counter("n").add(7)

        if __name__ == "__main__":
            telemetry.start("job")
            multiprocessing.get_context("fork").Process(target=work).start()
    """)
    assert (done.code, done.said) == (0, "")
    snapshot = final(short_dir)
    assert (counters(snapshot), snapshot["completeness"]) == ({"n": 7}, "complete")


def test_a_pool_of_workers(script: Script) -> None:
    """The executor's workers end with it, and their events are in."""
    done = script("""
        from concurrent.futures import ProcessPoolExecutor
        import multiprocessing

        def work(number):
            telemetry.series("latency", unit="ms").record(number)
            telemetry.counter("n").add()
            return number

        if __name__ == "__main__":
            with telemetry.start("job") as run:
                with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
                    assert sum(pool.map(work, range(100))) == 4950
            assert run.report.series("latency").count == 100
            tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    assert (done.told[0]["counters"], done.told[0]["completeness"]) == ({"n": 100}, "complete")


def test_a_child_program_attaches_by_itself(script: Script) -> None:
    """The environment tells it where; it needs no start and no finish."""
    done = script("""
        import subprocess
        code = "import telemetry; [telemetry.counter('n').add() for _ in range(1000)]"
        with telemetry.start("job") as run:
            for _ in range(2):
                subprocess.run([sys.executable, "-c", code], check=True)
        tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    assert (done.told[0]["counters"], done.told[0]["completeness"]) == ({"n": 2000}, "complete")


def test_threads_share_one_instrument(script: Script) -> None:
    """Four threads, policy block, nothing lost."""
    done = script("""
        with telemetry.start("job", policy="block", buffer_events=10_000) as run:
            def work():
                count, series = run.counter("n"), run.series("s", unit="ns")
                for number in range(50_000):
                    count.add()
                    series.record(number)
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert run.report.series("s").count == 200_000
        tell(run)
    """)
    assert (done.code, done.said) == (0, "")
    told = done.told[0]
    assert (told["counters"], told["emitted"], told["lost"]) == ({"n": 200_000}, 400_000, 0)


def test_inside_a_running_event_loop(script: Script) -> None:
    """A run in an event loop, as in a notebook, touches no loop or signal handler at start or finish."""
    done = script("""
        import asyncio, signal

        async def main():
            before = signal.getsignal(signal.SIGINT)
            with telemetry.start("job") as run:
                latency = run.series("latency", unit="ms")

                @latency.time()
                async def step():
                    await asyncio.sleep(0)

                await asyncio.gather(*(step() for _ in range(10)))
            assert signal.getsignal(signal.SIGINT) is before
            assert run.report.series("latency").count == 10
            tell(run)

        asyncio.run(main())
    """)
    assert (done.code, done.said) == (0, "")
    assert done.told[0]["completeness"] == "complete"


KILL = """
import signal

def applied(run):
    return run.live_report().snapshot.accounting.applied

def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)

def kill(run):
    os.kill(run._keeper.aggregator.pid, signal.SIGKILL)
"""


def test_an_aggregator_that_was_killed_is_started_again(script: Script, short_dir: Path) -> None:
    """The program notices nothing but a line; its children go on too, and the result is complete and exact."""
    done = script(
        KILL
        + """
import subprocess
child = "import sys, telemetry; add = telemetry.counter('n').add; add(1); input(); add(1)"
run = telemetry.start("job")
count, series = run.counter("n"), run.series("s", unit="ms")
with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, text=True) as process:
    wait_for(lambda: applied(run) == 1)
    for number in range(5_000):
        count.add(1)
        series.record(number % 100)
    kill(run)
    for number in range(5_000):
        count.add(1)
        series.record(number % 100)
    wait_for(lambda: run._keeper.restarts == 1)
    process.communicate("\\n")
    assert process.returncode == 0
run.finish()
assert run.report.series("s").exact
tell(run)
"""
    )
    assert done.code == 0, done.said
    [told] = done.told
    assert (told["source"], told["reason"], told["state"]) == ("pubsub", "", "COMPLETE")
    assert (told["completeness"], told["counters"]) == ("complete", {"n": 10_002})
    assert (told["emitted"], told["lost"], told["producers"]) == (20_002, 0, 2)
    [line] = done.said.splitlines()
    assert line.startswith("telemetry: the aggregator (pid ")
    assert line.endswith(") was killed by SIGKILL; restarted, the run continues")
    assert counters(final(short_dir)) == {"n": 10_002}


def test_an_aggregator_that_is_killed_while_the_program_finishes(script: Script) -> None:
    """Right after the flush and before the run was asked to end: finish waits for the one that follows."""
    done = script(
        KILL
        + """
run = telemetry.start("job")
run.counter("n").add(3)
ask = run._keeper.ask
def kill_first(request, timeout_s):
    kill(run)
    run._keeper.aggregator.process.wait()
    ask(request, timeout_s)
run._keeper.ask = kill_first
run.finish()
tell(run)
"""
    )
    assert done.code == 0, done.said
    [told] = done.told
    assert (told["state"], told["completeness"], told["counters"]) == ("COMPLETE", "complete", {"n": 3})


def test_an_aggregator_that_is_killed_at_the_exit_of_the_program(script: Script, short_dir: Path) -> None:
    """The exiting program starts another aggregator if its aggregator is killed then.

    Nobody called finish, and the interpreter is about to end.
    """
    done = script(
        KILL
        + """
import atexit
run = telemetry.start("job")
run.counter("n").add(3)
wait_for(lambda: applied(run) == 1)
atexit.register(kill, run)
"""
    )
    assert done.code == 0, done.said
    snapshot = final(short_dir)
    assert (snapshot["state"], snapshot["completeness"], counters(snapshot)) == ("COMPLETE", "complete", {"n": 3})


def test_a_forked_child_starts_no_aggregator(script: Script) -> None:
    """The run is the parent's, and so is the keeping of it."""
    done = script(
        KILL
        + """
run = telemetry.start("job")
run.counter("n").add(1)
wait_for(lambda: applied(run) == 1)
reading, writing = os.pipe()
if os.fork() == 0:
    before = {thread.name for thread in threading.enumerate()}
    kill(run)
    run.counter("n").add(1)
    wait_for(lambda: applied(run) == 2)
    os.write(writing, b"keeper" if "telemetry-keeper" in before or run._keeper.restarts else b"child")
    sys.exit(0)
assert os.read(reading, 10) == b"child"
os.wait()
assert run._keeper.restarts == 1
run.finish()
tell(run)
"""
    )
    assert done.code == 0, done.said
    assert (done.told[0]["counters"], done.told[0]["completeness"]) == ({"n": 2}, "complete")
    assert done.said.count("restarted, the run continues") == 1


def test_without_a_journal_a_killed_aggregator_leaves_the_last_live_snapshot(script: Script) -> None:
    """The program goes on, finish is bounded, and the report says what it is and why."""
    done = script(
        KILL
        + """
run = telemetry.start("job", journal=False)
run.counter("n").add(4)
wait_for(lambda: applied(run) == 1)
time.sleep(0.3)
kill(run)
run.counter("n").add(1)
begun = time.monotonic()
run.finish()
assert time.monotonic() - begun < 15
tell(run)
"""
    )
    assert done.code == 0, done.said
    [told] = done.told
    assert (told["source"], told["counters"], told["completeness"]) == ("last_live", {"n": 4}, "incomplete")
    assert "the run has no journal; there is no final_snapshot.json" in told["reason"]
    assert "can't be restarted: the run has no journal. Events recorded from now on are lost" in done.said


def test_when_no_other_can_be_started_the_journal_is_the_result(script: Script, short_dir: Path) -> None:
    """Bounded, with what had been written, and what this program emitted since counted as missing."""
    (short_dir / "sitecustomize.py").write_text(
        "import os, sys\nif '--resume' in sys.orig_argv: os.kill(os.getpid(), 9)\n"
    )
    done = script(
        KILL
        + """
run = telemetry.start("job")
run.counter("n").add(4)
wait_for(lambda: applied(run) == 1)
kill(run)
wait_for(lambda: run._keeper.gone)
run.counter("n").add(1)
begun = time.monotonic()
run.finish()
assert time.monotonic() - begun < 25
tell(run)
""",
        PYTHONPATH=str(short_dir),
    )
    assert done.code == 0, done.said
    [told] = done.told
    assert (told["source"], told["counters"], told["emitted"], told["lost"]) == ("journal", {"n": 4}, 2, 1)
    assert "can't be restarted: the aggregator exited before it was ready" in told["reason"]


def test_a_run_directory_that_cannot_be_written_is_one_clear_error(script: Script, short_dir: Path) -> None:
    """The aggregator's own words, as the exception they stand for."""
    (short_dir / "file").write_text("")
    done = script("""
        try:
            telemetry.start("job", dir="file")
        except telemetry.TelemetryError as error:
            print(json.dumps([type(error).__name__, str(error)]))
        run = telemetry.start("job", dir="file", required=False)
        run.counter("n").add()
        run.finish()
    """)
    assert done.code == 0
    [(kind, text)] = done.told
    assert kind == "RunDirectoryError"
    assert "file" in text
    assert done.said.count("nothing is recorded") == 1


def test_an_exception_that_ends_the_program_is_in_the_result(script: Script, short_dir: Path) -> None:
    """An exception that ends the program is a mark, like one that leaves a `with` block.

    Then the hook of another library and the traceback follow.
    """
    done = script("""
        def theirs(kind, error, trace):
            print("another library heard", kind.__name__, file=sys.stderr)
            sys.__excepthook__(kind, error, trace)

        sys.excepthook = theirs
        run = telemetry.start("job")
        run.counter("n").add()
        raise RuntimeError("out of memory")
    """)
    assert done.code == 1
    snapshot = final(short_dir)
    assert [mark["text"] for mark in snapshot["marks"]] == ["RuntimeError: out of memory"]
    assert (snapshot["completeness"], snapshot["reason"]) == ("complete", "the program failed")
    assert done.said.index("another library heard RuntimeError") < done.said.index("Traceback")


def test_an_exception_is_one_mark(script: Script, short_dir: Path) -> None:
    """An exception is one mark, also if it leaves the `with` block and then ends the program.

    A run that is over has no mark of it.
    """
    done = script("""
        telemetry.start("first").finish()
        with telemetry.start("second"):
            raise RuntimeError("out of memory")
    """)
    assert done.code == 1
    assert [mark["text"] for mark in final(short_dir)["marks"]] == ["RuntimeError: out of memory"]
    assert "after finish" not in done.said


def test_only_the_run_that_an_exception_ended_failed(script: Script, short_dir: Path) -> None:
    """An exit code in a `with` block is an exception, too. The next run of the same program starts afresh."""
    done = script("""
        for name, code in (("bad", 3), ("good", 0)):
            try:
                with telemetry.start(name) as run:
                    sys.exit(code)
            except SystemExit:
                print(json.dumps(run.report.snapshot.reason))
    """)
    assert done.told == ["the program failed", "finished"]


def test_an_exception_in_the_body_is_in_the_result(script: Script, short_dir: Path) -> None:
    """An exception in the body is a mark, and the program fails as it would have."""
    done = script("""
        with telemetry.start("job"):
            raise RuntimeError("out of memory")
    """)
    assert done.code == 1
    snapshot = final(short_dir)
    assert [mark["text"] for mark in snapshot["marks"]] == ["RuntimeError: out of memory"]
    assert snapshot["completeness"] == "complete"
