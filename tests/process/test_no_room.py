"""Processes for which a run has no room, and processes that outlive their run: none of them waits in vain."""

from __future__ import annotations

import json
import sys
import time
from textwrap import dedent
from typing import Any

PROMPT_S = 10.0
"""Far below `emit.finish_timeout_s`, which is 30 s."""


def test_a_child_without_descriptors_of_its_own_uses_the_reserve(ground: Any) -> None:
    """A process at its limit of open files forks a child that records: all of it arrives."""
    program = ground.program(
        "full.py",
        dedent("""
        import os, resource, sys, telemetry
        run = telemetry.start("full")
        count = run.counter("n")
        count.add()
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        opened = []
        try:
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        if (pid := os.fork()) == 0:
            for _ in range(1000):
                count.add()
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        for descriptor in opened:
            os.close(descriptor)
        run.finish()
        """),
    )
    done = ground.popen(sys.executable, program)
    _, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    assert [line.split()[0] for line in err.splitlines()] == ["telemetry:", "telemetry:"], "there are no warnings"
    final = ground.final()
    assert (final["completeness"], final["counters"][0]["value"]) == ("complete", 1001)


def test_a_child_without_any_descriptor_says_what_is_lost(ground: Any) -> None:
    """A child without any descriptor ends within seconds, though it can reach no aggregator.

    One line names the number of events and the remedy.
    """
    program = ground.program(
        "none.py",
        dedent("""
        import os, resource, sys, telemetry
        run = telemetry.start("none")
        count = run.counter("n")
        count.add()
        from telemetry.client.process import PROCESS
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        opened = []
        if (pid := os.fork()) == 0:
            PROCESS._reserve.release()
            try:
                while True:
                    opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                pass
            for _ in range(1000):
                count.add()
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        run.finish()
        """),
    )
    began = time.monotonic()
    done = ground.popen(sys.executable, program)
    _, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    assert time.monotonic() - began < PROMPT_S
    assert err.count("\n") == 3, "one line, and the two of the end"
    assert "1,000 events were lost: can't reach " in err
    assert "raise the limit with `ulimit -n`" in err


def test_a_process_that_finds_no_room_says_so_and_goes_on(ground: Any) -> None:
    """`start` returns a run that only counts; neither it nor a short-lived child waits for the time to finish."""
    (ground.folder / "seam").mkdir()
    ground.program("seam/sitecustomize.py", "from telemetry import limits\nlimits.PRODUCERS = 1\n")
    _, endpoint = ground.serve(environ={"PYTHONPATH": str(ground.folder / "seam")})
    program = ground.program(
        "late.py",
        dedent("""
        import json, os, sys, time, telemetry
        with telemetry.start("late") as run:
            for number in range(7):
                run.series("v", unit="ms").record(number)
        print(json.dumps([run.report.source, run.report.source_reason]))
        """),
    )
    child = ground.program(
        "child.py", "import telemetry\ntelemetry.counter('n').add(5)\ntelemetry.counter('n').add()\n"
    )
    first = ground.popen(
        sys.executable,
        "-c",
        "import telemetry\nrun = telemetry.start('first')\nprint('up', flush=True)\ninput()",
        environ={"TELEMETRY_ENDPOINT": endpoint},
        stdin=-1,
    )
    assert first.stdout.readline() == "up\n"
    began = time.monotonic()
    late = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint})
    out, err = late.communicate(timeout=60)
    assert late.returncode == 0, err
    assert "nothing is recorded" in err
    assert "1 producers that have not ended, and accepts no more" in err
    assert "7 events were lost" in err
    assert "could not join" in json.loads(out)[1]
    short = ground.popen(sys.executable, child, environ={"TELEMETRY_ENDPOINT": endpoint})
    _, err = short.communicate(timeout=60)
    assert short.returncode == 0
    assert "2 events were lost" in err
    assert time.monotonic() - began < PROMPT_S


def test_finish_after_the_end_of_the_run_does_not_wait_for_its_timeout(ground: Any) -> None:
    """All was acknowledged and nobody listens any more: the result is read from the disk at once."""
    aggregator, endpoint = ground.serve()
    program = ground.program(
        "outlives.py",
        dedent("""
        import json, sys, time, telemetry
        run = telemetry.start("outlives")
        run.counter("n").add(3)
        print("up", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        report = run.finish()
        print(json.dumps([time.monotonic() - began, report.source, report.counter("n").value]))
        """),
    )
    child = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint}, stdin=-1)
    assert child.stdout.readline() == "up\n"
    ground.run("stop", endpoint)
    aggregator.wait(30)
    out, err = child.communicate("\n", timeout=60)
    assert child.returncode == 0, err
    took_s, source, value = json.loads(out)
    assert (source, value) == ("file", 3)
    assert took_s < PROMPT_S
