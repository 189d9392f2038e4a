"""`telemetry run`: the command, its signals, its bill, and the report."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.processes import KILLED

RECORD = """
import telemetry
run = telemetry.start("ignored")
latency = run.series("latency", unit="ms", route="/a")
for value in range(1, 1001):
    latency.record(value)
run.counter("requests", unit="1").add(1000)
run.gauge("heat").set(3.5)
run.params({"a": {"b": 1}})
run.mark("half way")
print("to stdout")
"""

NAMES_ITSELF = """
import sys, telemetry
early = telemetry.counter("early")  # attaches before there is a name
early.add()
run = telemetry.start(*sys.argv[1:])
run.counter("requests").add()
"""


def pid_of(text: str) -> int:
    return int(text.rsplit(maxsplit=1)[-1])


def test_a_command_that_uses_the_api_is_reported_whole(ground: Any) -> None:
    """Exit code, stdout untouched, first line, exact percentiles, names that scripts rely on."""
    program = ground.program("job.py", RECORD)
    code, out, err = ground.run("run", "--name", "mine", "--", sys.executable, program)
    assert (code, out) == (0, "to stdout\n"), err
    assert "complete: mine, 1,004 of 1,004 events applied, 0 lost" in err
    assert f"files: {ground.folder}/runs/mine-" in err.replace("\n    ", " ").replace("\n  ", " ")
    final = ground.final()
    assert final["schema_version"] == 1
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "complete", True)
    (series,) = final["series"]
    assert (series["name"], series["labels"], series["unit"]) == ("latency", {"route": "/a"}, "ms")
    assert (series["count"], series["total"], series["min"], series["max"]) == (1000, 500500, 1, 1000)
    assert (series["exact"], series["error_bound"]) == (True, 0)
    assert series["percentiles"]["50"] == 500
    assert series["percentiles"]["99.9"] == 999
    assert list(series["percentiles"]) == sorted(series["percentiles"], key=float)
    (counter,) = final["counters"]
    assert {"name": "requests", "labels": {}, "unit": "1", "value": 1000, "events": 1}.items() <= counter.items()
    assert (counter["extent"], counter["imprecise"], counter["began_ns"]) == (None, 0, counter["ended_ns"])
    assert series["began_ns"] < series["ended_ns"] <= counter["ended_ns"]
    assert final["gauges"][0]["value"] == 3.5
    assert final["params"] == {"a.b": 1}
    assert [mark["text"] for mark in final["marks"]] == ["half way"]


def test_a_command_without_the_api_still_has_a_bill(ground: Any) -> None:
    """Wall time, CPU, memory and exit code of any command are in the report, and its exit code is ours."""
    code, _, err = ground.run("run", "--name", "plain", "--", "/bin/sh", "-c", "exit 7")
    assert code == 7, err
    command = ground.final()["command"]
    assert (command["exit_code"], command["signal"]) == (7, None)
    assert command["argv"] == ["/bin/sh", "-c", "exit 7"]
    assert command["wall_s"] > 0
    assert (command["max_rss_bytes"], command["max_rss_bound_bytes"] > 100_000) == (0, True)
    assert "exit code 7" in err


def test_the_memory_in_the_bill_is_the_command_s_own(ground: Any) -> None:
    """A child begins, for the kernel, at the size of the process that started it; a peak below that is not said."""
    code, _, err = ground.run("run", "--", "true")
    assert (code, ground.final()["command"]["max_rss_bytes"]) == (0, 0)
    assert "exit code 0" in err
    assert "peak memory" not in err
    assert ground.run("run", "--quiet", "--gate", "command.max_rss < 1GiB", "--", "true")[0] == 0
    assert ground.run("run", "--quiet", "--gate", "command.max_rss < 1MiB", "--", "true")[0] == 3
    grow = "held = b'x' * (80 << 20)"
    assert ground.run("run", "--quiet", "--", sys.executable, "-c", grow)[0] == 0
    assert ground.final()["command"]["max_rss_bytes"] > 80 << 20


def test_a_run_that_was_stopped_is_said_and_its_command_goes_on(ground: Any) -> None:
    """The wrapper says that nothing is measured any more, and still returns the command's code."""
    program = ground.program(
        "job.py",
        "import os, time\nprint('up', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "raise SystemExit(4)\n",
    )
    wrapper = ground.telemetry("run", "--name", "cut", "--", sys.executable, program)
    wrapper.stdout.readline()
    assert ground.run("stop", "cut")[0] == 0
    lines = iter(wrapper.stderr.readline, "")
    assert any("the run was stopped but the command continues" in line for line in lines)
    (ground.folder / "go").touch()
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 4
    assert "died" not in err
    assert "complete: cut, " in err


def test_a_command_that_is_not_there_says_so(ground: Any) -> None:
    """127 like a shell, one line, and no aggregator is left behind."""
    code, _, err = ground.run("run", "--quiet", "--", "no-such-command")
    assert code == 127
    assert err == "telemetry: no-such-command: command not found: is it installed, and in a folder of PATH?\n"
    assert ground.run("run", "--", "no-such-command")[2] == err
    assert ground.live() == []


@pytest.mark.skipif(sys.platform != "linux", reason="lists descriptors in /proc")
def test_a_command_has_the_descriptors_that_were_given_to_it_alone(ground: Any) -> None:
    """A command has no descriptors of this package, also with writers and a gateway.

    The file in this test stands for `<(…)` in bash.
    """
    folder = "/proc/self/fd"
    program = (
        f"import os; print(sorted(int(fd) for fd in os.listdir('{folder}') if os.path.exists('{folder}/' + fd)))"
    )
    with open(os.devnull) as file:
        os.set_inheritable(file.fileno(), True)
        code, out, _ = ground.run(
            *("run", "--gateway", "127.0.0.1:0", "--to", "jsonl", "--", sys.executable, "-c", program),
            pass_fds=(file.fileno(),),
        )
        assert (code, out) == (0, f"{[0, 1, 2, file.fileno()]}\n")


def test_no_command_is_a_usage_error(ground: Any) -> None:
    """Exit 2 and how to say it."""
    code, _, err = ground.run("run", "--name", "x", "--")
    assert (code, err) == (2, "telemetry: no command to run (telemetry run --name NAME -- CMD …)\n")


def test_signals_reach_the_command_and_its_death_ends_the_run(ground: Any) -> None:
    """SIGTERM to the wrapper is the command's; the run ends with 128 + 15 and a report that says it."""
    program = ground.program(
        "job.py",
        "import os, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n",
    )
    wrapper = ground.telemetry("run", "--", sys.executable, program)
    pid_of(wrapper.stdout.readline())
    wrapper.send_signal(signal.SIGTERM)
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 128 + signal.SIGTERM, err
    final = ground.final()
    assert final["command"]["signal"] == "SIGTERM"
    assert final["reason"] == "the command was killed by SIGTERM"


def test_a_command_killed_in_mid_run_is_named_as_missing(ground: Any) -> None:
    """A run whose command is killed by `kill -9` ends by itself.

    The run is incomplete and names the producer if the last events cannot be read; else the run says how many were
    read.
    """
    program = ground.program(
        "job.py",
        "import os, telemetry\nrun = telemetry.start('x')\ns = run.series('v')\nprint(os.getpid(), flush=True)\n"
        "while True: s.record(1.0)\n",
    )
    wrapper = ground.telemetry("run", "--name", "killed", "--", sys.executable, program)
    os.kill(pid_of(wrapper.stdout.readline()), signal.SIGKILL)
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 128 + signal.SIGKILL, err
    final = ground.final()
    assert final["state"] == "COMPLETE"
    (producer,) = final["producers"]
    if KILLED == "incomplete":
        assert producer["completeness"] == final["completeness"] == "incomplete"
        assert producer["status"] != "ended"
        assert "incomplete: killed" in err
    else:  # whoever records without a pause may be too fast for the aggregator
        account = final["accounting"]
        assert account["emitted"] == account["applied"] + sum(account["dropped_by_producer"].values())
        assert (producer["status"], producer["missing"]) == ("ended", 0)
        salvaged = re.search(r"(?:complete|lossy)(?: \(([\d,]+) events salvaged\))?: killed", err)
        assert salvaged, err
        assert int((salvaged[1] or "0").replace(",", "")) == account["salvaged"]


def test_a_killed_wrapper_does_not_end_a_run_whose_command_lives(ground: Any, wait_until: Any) -> None:
    """The aggregator goes on until the command ends, and then writes a complete result."""
    program = ground.program(
        "job.py",
        "import os, sys, time, telemetry\nrun = telemetry.start('x')\nrun.counter('n').add(1)\n"
        "print(os.getpid(), flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "run.counter('n').add(1)\n",
    )
    wrapper = ground.telemetry("run", "--name", "orphan", "--", sys.executable, program)
    wrapper.stdout.readline()
    wrapper.kill()
    wrapper.wait()
    assert [run["name"] for run in ground.live()] == ["orphan"]
    (ground.folder / "go").touch()
    file = ground.folder / "runs" / "latest" / "final_snapshot.json"
    wait_until(file.exists, 30.0, "the final file")
    final = ground.final()
    assert final["completeness"] == "complete"
    assert final["counters"][0]["value"] == 2
    assert "is gone" in final["reason"]


# --- an aggregator that dies ---------------------------------------------------------------------

PACED = """
import os, time, telemetry
n, v = telemetry.counter("n"), telemetry.series("v", unit="ms")
print("up", flush=True)
number = 0
while number < 20_000 or not os.path.exists("go"):
    for _ in range(100):
        n.add(1)
        v.record(number % 1000)
        number += 1
    time.sleep(0.001)
open("count", "w").write(str(number))
raise SystemExit(3)
"""
"""Records without a pause, at some 50,000 events a second, until it is told to end."""

CRASH_ON_RESUME = """
import os, sys
if "--resume" in sys.orig_argv:
    os.kill(os.getpid(), 9)
"""


CRASH_AT_EXACT_PASS = """
import os, sys
if "serve" in sys.orig_argv and "--resume" not in sys.orig_argv:
    import telemetry.daemon.finalize as finalize
    def die(*_, **__):
        open("died", "w").close()
        os.kill(os.getpid(), 9)
    finalize.Refiner = die
"""


def kill_aggregator(ground: Any) -> int:
    """Kill the aggregator of the one live run, and return its process id."""
    (live,) = ground.live()
    os.kill(live["pid"], signal.SIGKILL)
    return int(live["pid"])


def await_events(ground: Any) -> None:
    """Wait until the run has recorded for some seconds, so that the wrapper has seen its snapshot."""
    deadline = time.monotonic() + 60.0
    while not any(run["state"] == "LIVE" and run["events"] and run["duration_s"] > 4.0 for run in ground.live()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def said(lines: Iterator[str], *words: str) -> str:
    """The first line that has all of the words."""
    return next(line for line in lines if all(word in line for word in words))


def assert_whole(ground: Any) -> None:
    """The final file says that everything the paced program recorded is in it, exactly and once."""
    final, count = ground.final(), int((ground.folder / "count").read_text())
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "complete", True)
    (counter,), (series,) = final["counters"], final["series"]
    assert (counter["value"], counter["events"], series["count"]) == (count, count, count)
    assert series["total"] == sum(number % 1000 for number in range(count))
    assert (series["min"], series["max"], series["percentiles"]["50"]) == (0, 999, sorted_median(count))
    account = final["accounting"]
    assert (account["emitted"], account["received"], account["applied"]) == (2 * count,) * 3
    assert (account["missing"], account["unrepairable"], account["dropped_by_producer"]) == (0, 0, {})


def sorted_median(count: int) -> int:
    values = sorted(number % 1000 for number in range(count))
    return values[-(-count // 2) - 1]


def test_an_aggregator_that_is_killed_is_started_again(ground: Any) -> None:
    """Twice in mid-run: the command notices nothing and keeps its exit code; the result is complete and exact."""
    program = ground.program("job.py", PACED)
    wrapper = ground.telemetry("run", "--name", "twice", "--", sys.executable, program)
    wrapper.stdout.readline()
    lines = iter(wrapper.stderr.readline, "")
    await_events(ground)
    for _ in range(2):
        pid = kill_aggregator(ground)
        assert said(lines, "the aggregator").strip() == (
            f"telemetry: the aggregator (pid {pid}) was killed by SIGKILL; restarted, the run continues"
        )
        await_events(ground)
    (ground.folder / "go").touch()
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 3, err
    assert "complete: twice, " in err
    assert_whole(ground)
    assert ground.final()["reason"] == "the command exited with code 3"


def test_the_next_aggregator_belongs_to_the_command_as_well(ground: Any, wait_until: Any) -> None:
    """The next aggregator watches the command, too.

    A wrapper that dies then does not end a run whose command lives.
    """
    program = ground.program("job.py", PACED)
    wrapper = ground.telemetry("run", "--name", "both", "--", sys.executable, program)
    wrapper.stdout.readline()
    lines = iter(wrapper.stderr.readline, "")
    await_events(ground)
    first = kill_aggregator(ground)
    said(lines, "restarted, the run continues")
    wrapper.kill()
    wrapper.wait()
    (live,) = ground.live()
    assert live["pid"] != first
    (ground.folder / "go").touch()
    wait_until((ground.folder / "runs" / "latest" / "final_snapshot.json").exists, 30.0, "the final file")
    assert_whole(ground)
    assert "is gone" in ground.final()["reason"]


def test_an_aggregator_that_is_killed_while_it_drains_is_started_again(ground: Any, wait_until: Any) -> None:
    """The run stays asked to end, with the command's bill; a producer that is held up is still waited for. It may
    hear of the end before it finishes or after; the result says which."""
    child = ground.program("child.py", PACED)
    program = ground.program(
        "job.py",
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\nprint(child.pid, flush=True)\ninput()\nraise SystemExit(5)\n",
    )
    wrapper = ground.telemetry(
        "run", "--name", "held", "--worker-grace", "0", "--", sys.executable, program, stdin=subprocess.PIPE
    )
    held = pid_of(wrapper.stdout.readline())
    lines = iter(wrapper.stderr.readline, "")
    await_events(ground)
    os.kill(held, signal.SIGSTOP)
    try:
        wrapper.stdin.write("\n")
        wrapper.stdin.flush()
        wait_until(lambda: [run for run in ground.live() if run["state"] == "DRAINING"], 30.0, "the drain")
        kill_aggregator(ground)
        said(lines, "restarted, the run continues")
    finally:
        (ground.folder / "go").touch()
        os.kill(held, signal.SIGCONT)
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 5, err
    final = ground.final()
    (producer,) = final["producers"]
    assert producer["status"] == "ended"
    completeness = "incomplete" if producer["unfinished"] else "complete"
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", completeness, True), err
    assert (final["reason"], final["command"]["exit_code"]) == ("the command exited with code 5", 5)
    assert final["accounting"]["missing"] == 0


def test_an_aggregator_that_is_killed_at_its_exact_pass_is_started_again(ground: Any) -> None:
    """The journal alone gives the result after a kill in the exact pass, as no producer is left.

    The run may end before anybody can say what happened.
    """
    (ground.folder / "sitecustomize.py").write_text(CRASH_AT_EXACT_PASS)
    (ground.folder / "go").touch()
    program = ground.program("job.py", PACED)
    code, _, err = ground.run(
        "run", "--name", "last", "--", sys.executable, program, environ={"PYTHONPATH": str(ground.folder)}
    )
    assert code == 3, err
    assert (ground.folder / "died").exists()
    assert "complete: last, " in err
    assert_whole(ground)
    assert ground.final()["command"]["exit_code"] == 3


def test_without_a_journal_a_dead_aggregator_is_said_and_does_not_touch_the_command(ground: Any) -> None:
    """There is nothing to start another from: the command runs on to its own exit code, the report is the last live
    one."""
    program = ground.program("job.py", PACED)
    wrapper = ground.telemetry(
        "run", "--name", "lone", "--no-journal", "--", sys.executable, program,
        environ={"TELEMETRY_EMIT__FINISH_TIMEOUT_S": "2"},
    )  # fmt: skip
    wrapper.stdout.readline()
    lines = iter(wrapper.stderr.readline, "")
    await_events(ground)
    pid = kill_aggregator(ground)
    assert said(lines, "the aggregator").strip() == (
        f"telemetry: the aggregator (pid {pid}) was killed by SIGKILL and can't be restarted: the "
        "run has no journal. Events recorded from now on are lost"
    )
    (ground.folder / "go").touch()
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 3
    assert "incomplete: lone" in err
    assert "last live snapshot" in err


def test_a_crash_loop_ends_with_what_the_journal_holds(ground: Any) -> None:
    """Each aggregator that is started dies at once: after some of them nobody tries again, the command ends as it
    would have, and the result is what had been written."""
    (ground.folder / "sitecustomize.py").write_text(CRASH_ON_RESUME)
    program = ground.program("job.py", PACED)
    wrapper = ground.telemetry(
        "run", "--name", "loop", "--", sys.executable, program,
        environ={"PYTHONPATH": str(ground.folder), "TELEMETRY_EMIT__FINISH_TIMEOUT_S": "20"},
    )  # fmt: skip
    wrapper.stdout.readline()
    lines = iter(wrapper.stderr.readline, "")
    await_events(ground)
    pid = kill_aggregator(ground)
    assert said(lines, "the aggregator").strip() == (
        f"telemetry: the aggregator (pid {pid}) was killed by SIGKILL and can't be restarted: the "
        "aggregator exited before it was ready. Events recorded from now on are lost"
    )
    (ground.folder / "go").touch()
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 3, err
    assert "from the journal: the aggregator" in err, err
    assert "exit code 3" in err
    final = ground.final()
    assert final["completeness"] in ("incomplete", "interrupted")
    assert final["counters"][0]["value"] > 0


def test_strict_turns_a_lossy_result_into_exit_4(ground: Any) -> None:
    """The command succeeded, but a value was no number."""
    program = ground.program(
        "job.py", "import telemetry\nrun = telemetry.start('x')\nrun.series('v').record('three')\n"
    )
    code, _, err = ground.run("run", "--strict", "--quiet", "--", sys.executable, program)
    assert code == 4, err
    final = ground.final()
    assert final["completeness"] == "lossy"
    assert final["accounting"]["dropped_by_producer"] == {"not_a_number": 1}


def test_ctrl_c_reaches_the_job_once_and_first(ground: Any) -> None:
    """The job in a terminal decides what an interrupt means, and the wrapper waits and reports."""
    program = ground.program(
        "job.py",
        "import signal, sys, time\ncount = 0\n"
        "def note(*_):\n    global count\n    count += 1\n"
        "signal.signal(signal.SIGINT, note)\nprint('up', flush=True)\n"
        "end = time.monotonic() + 30\n"
        "while not count and time.monotonic() < end: time.sleep(0.01)\n"
        "time.sleep(0.3)\nopen('count', 'w').write(str(count))\nraise SystemExit(9)\n",
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ground.folder)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "telemetry", "run", "--", sys.executable, program],
            ground.environ,
        )
    said = b""
    while b"up" not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    try:
        while chunk := os.read(terminal, 4096):
            said += chunk
    except OSError:
        pass  # the terminal is gone with its last process
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 9, said
    assert (ground.folder / "count").read_text() == "1"
    assert b"complete: " in said
    assert ground.final()["completeness"] == "complete"


def test_a_run_has_the_name_that_its_program_gives_it(ground: Any) -> None:
    """A run has the name of its script until the program names it, and `--name` is stronger.

    Each name finds the run again.
    """
    program = ground.program("job.py", NAMES_ITSELF)
    for words, name in ((["nightly run"], "nightly run"), ([], "job")):
        code, _, err = ground.run("run", "--", "env", "X=1", sys.executable, "-u", program, *words)
        assert code == 0, err
        assert f"complete: {name}, " in err
        final = ground.final()
        assert final["name"] == name
        assert os.path.basename(final["directory"]).startswith("job-")
        assert json.loads(ground.run("ls", "--json")[1])[0]["name"] == name
        code, out, err = ground.run("report", name, "--json")
        assert code == 0, err
        assert json.loads(out)["run_id"] == final["run_id"]
    code, _, err = ground.run("run", "--name", "mine", "--", sys.executable, program, "nightly")
    assert (code, ground.final()["name"]) == (0, "mine"), err


def test_a_program_that_starts_its_own_run_without_a_name_is_called_like_its_script(ground: Any) -> None:
    """A program that starts its own run without a name gives it the script's name.

    This is as in `telemetry run`.
    """
    child = ground.popen(sys.executable, ground.program("job.py", NAMES_ITSELF))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    final = ground.final()
    assert (final["name"], os.path.basename(final["directory"]).partition("-")[0]) == ("job", "job")
