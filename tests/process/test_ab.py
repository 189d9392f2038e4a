"""`telemetry ab` with real commands: order, verdict, file, void pairs, resumed pairs, checkouts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.processes import processes_with

pytestmark = pytest.mark.timeout(300)

SHORT = ("sleep", "0.01")
LONG = ("sleep", "0.15")
DEADLINE_S = 60.0
STEADY = """
import os, sys, time
with open("calls", "a") as calls:
    calls.write(sys.argv[1] + "\\n")
time.sleep(float(sys.argv[1]))
"""
CORES = """
import os, pathlib, sys, time
own, other = map(pathlib.Path, sys.argv[1:])
with own.open("a") as file:
    print(sorted(os.sched_getaffinity(0)), file=file)
while not other.exists() or other.read_text().count("\\n") < own.read_text().count("\\n"):
    time.sleep(0.01)
"""
"""A run that ends only after the run of the other side has begun."""
RECORDED = """
import sys, telemetry
with telemetry.start("job") as run:
    latency, requests = run.series("latency", unit="ms"), run.requests("chat")
    for number in range(int(sys.argv[2])):
        latency.record(float(sys.argv[1]) + number / 400)
        requests.issue().complete()
"""


def results(ground: Any) -> list[Path]:
    """The files of all calls, the oldest first."""
    return sorted((ground.folder / "runs" / "ab").glob("*/ab.json"), key=lambda path: path.stat().st_mtime_ns)


def until(child: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pairs_of(ground: Any) -> list[Any]:
    files = results(ground)
    return list(json.loads(files[-1].read_text())["pairs"]) if files else []


def test_a_slower_command_fails(ground: Any) -> None:
    """The verdict is the first line, the exit code says worse, and the file has the pairs in their random order."""
    code, out, err = ground.run("ab", "--seed", "7", "--", *SHORT, "--", *LONG)
    assert code == 99, err
    assert out.split("\n")[0].startswith("sleep 0.15 is ")
    assert "slower (wall time; " in out.split("\n")[0]
    (path,) = results(ground)
    result = json.loads(path.read_text())
    assert result["ending"] == "decided"
    assert 8 <= len(result["pairs"]) <= 60
    orders = ["before" if Random(f"7/{at}").random() >= 0.5 else "after" for at in range(len(result["pairs"]))]
    assert [pair["first"] for pair in result["pairs"]] == orders
    assert len(set(orders)) == 2
    for pair in result["pairs"]:
        assert pair["before"]["values"]["wall time"] >= 0.01
        assert pair["after"]["values"]["wall time"] >= 0.15
        assert 0 <= pair["before"]["values"]["CPU time"] <= pair["before"]["values"]["wall time"]
    assert path.stat().st_mode & 0o777 == 0o600

    code, again, err = ground.run("ab", "--resume")
    assert code == 99, err
    assert again.split("\n")[0] == out.split("\n")[0]
    assert pairs_of(ground) == result["pairs"]


def test_a_faster_command_passes_in_all_formats(ground: Any) -> None:
    """A better figure is exit code 0; each format has the verdict."""
    files = [word for name in ("r.txt", "r.md", "r.json", "r.xml") for word in ("-o", name)]
    code, out, err = ground.run("ab", *files, "--", *LONG, "--", *SHORT)
    assert (code, out) == (0, ""), err
    texts = {path.suffix: path.read_text() for path in ground.folder.glob("r.*")}
    document = json.loads(texts[".json"])
    assert document["verdict"] == "better"
    assert " faster (wall time; " in document["conclusion"]
    assert texts[".txt"].split("\n")[0] == document["conclusion"]
    assert texts[".md"].startswith("**sleep 0.01 is ")
    assert '<testcase classname="telemetry.ab" name="wall time"' in texts[".xml"]
    assert 'failures="0" skipped="0"' in texts[".xml"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_of_a_pair(ground: Any, number: int, wait_until: Callable[..., object]) -> None:
    """What a shell has started is ended with it, and the second run of the pair is never started."""
    script = "sh -c 'echo $$ >> begun; exec sleep 60'; true"
    command = ("--", "sh", "-c", script)
    child = ground.telemetry("ab", "--warmup", "0", *command, *command)
    begun = ground.folder / "begun"
    until(child, lambda: begun.exists() and begun.read_text().endswith("\n"))
    os.kill(child.pid, number)
    _, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 128 + number, err
    assert begun.read_text().count("\n") == 1
    wait_until(lambda: not list(processes_with(f"XDG_RUNTIME_DIR={ground.folder}")))


def test_a_signal_keeps_the_output_of_the_run_that_failed(ground: Any) -> None:
    """A run that the signal ended is no failed one."""
    script = "if mkdir once; then echo why; exit 7; fi 2> errors; touch begun; exec sleep 60"
    command = ("--", "sh", "-c", script)
    child = ground.telemetry("ab", "--warmup", "1", *command, *command)
    until(child, (ground.folder / "begun").exists)
    os.kill(child.pid, signal.SIGTERM)
    _, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 143, err
    assert (results(ground)[0].parent / "failed.log").read_text() == "why\n"


def test_a_parent_may_ignore_sigchld(ground: Any) -> None:
    """Exit codes are read although the kernel was told to forget ended children."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.executable, sys.argv[1:])"
    )
    words = ("ab", "--warmup", "0", "--json", "--", "true", "--", "sh", "-c", "kill -40 $$")
    child = ground.popen(sys.executable, "-c", ignoring, sys.executable, "-m", "telemetry", *words)
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 3, err
    assert [pair["void"] for pair in json.loads(out)["pairs"]] == ["sh: ended by signal 40"] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_pairs_go_on_after_an_end(ground: Any, number: int) -> None:
    """Pairs before a Ctrl-C, an end or a kill are kept, and the others follow in the order of the same seed."""
    program = ground.program("steady.py", STEADY)
    commands = ("--", sys.executable, program, "0.001", "--", sys.executable, program, "0.4")
    child = ground.telemetry("ab", "--pairs", "40", *commands)
    until(child, lambda: len(pairs_of(ground)) >= 2)
    os.kill(child.pid, number)
    out, err = child.communicate(timeout=DEADLINE_S)
    kept = pairs_of(ground)
    if number != signal.SIGKILL:
        assert child.returncode == 128 + number, err
        assert f"{len(kept)} pairs of 0.001 and 0.4" in out
        assert "stopped by a signal" in out
        assert "go on with: telemetry ab --resume " in err
    (path,) = results(ground)
    code, out, err = ground.run("ab", "--resume", str(path.parent))
    assert code == 99, err
    pairs = pairs_of(ground)
    assert pairs[: len(kept)] == kept
    assert 8 <= len(pairs) <= 40
    seed = json.loads(path.read_text())["settings"]["seed"]
    assert [pair["first"] for pair in pairs] == [
        "before" if Random(f"{seed}/{at}").random() >= 0.5 else "after" for at in range(len(pairs))
    ]


def test_more_pairs_can_follow(ground: Any) -> None:
    """Too few pairs can't tell; the same call with more of them can."""
    code, out, err = ground.run("ab", "--pairs", "3", "--", *SHORT, "--", *LONG)
    assert code == 3, err
    assert out.startswith("can't tell: wall time +")
    assert "(no limits yet, 3 pairs)" in out
    assert "ended after 3 pairs (--pairs)" in out
    code, out, err = ground.run("ab", "--resume", "--pairs", "30")
    assert code == 99, err
    assert out.startswith("sleep 0.15 is ")
    code, out, err = ground.run("ab", "--budget", "1ms", "--", *SHORT, "--", *LONG)
    assert code == 3, err
    assert "ended after 1.00 ms (--budget)" in out


def test_a_failed_run_makes_its_pair_void(ground: Any) -> None:
    """Void pairs are counted and named; three of them end the work. The output of the failed run is kept."""
    failing = ("sh", "-c", "echo why; exit 7")
    code, out, err = ground.run("ab", "--warmup", "0", "--json", "--", *SHORT, "--", *failing)
    assert code == 3, err
    result = json.loads(out)
    assert result["ending"] == "void"
    assert [pair["void"] for pair in result["pairs"]] == ["sh: exit code 7"] * 3
    assert result["conclusion"] == "can't tell: 3 void pairs; the newest: sh: exit code 7"
    (path,) = results(ground)
    assert path.with_name("failed.log").read_text() == "why\n"
    code, out, err = ground.run("ab", "--warmup", "0", "--", "sh", "-c", "kill -9 $$", "--", *SHORT)
    assert code == 3, err
    assert "3 pairs void: sh: ended by SIGKILL" in out


def test_a_pair_that_is_void_now_and_then_is_left_out(ground: Any) -> None:
    """A command that fails sometimes has its verdict from the other pairs."""
    program = ground.program(
        "moody.py",
        "import pathlib, sys, time\n"
        "calls = pathlib.Path('moods')\n"
        "count = len(calls.read_bytes()) if calls.exists() else 0\n"
        "calls.write_bytes(b'x' * (count + 1))\n"
        "time.sleep(0.3)\n"
        "sys.exit(count % 4 == 3)\n",
    )
    code, out, err = ground.run("ab", "--json", "--", "sleep", "0.01", "--", sys.executable, program)
    assert code == 99, err
    result = json.loads(out)
    void = [bool(pair["void"]) for pair in result["pairs"]]
    assert [at for at, is_void in enumerate(void) if is_void] == list(range(2, len(void), 4))
    assert result["verdicts"][1]["pairs"] == void.count(False)


def test_a_command_that_does_not_exist_ends_the_work(ground: Any) -> None:
    """A command that can't be started is an error of the call."""
    code, out, err = ground.run("ab", "--", *SHORT, "--", "no-such-program")
    assert (code, out) == (2, "")
    assert "no-such-program can't be started: No such file or directory" in err


def test_the_same_command_measures_the_machine(ground: Any) -> None:
    """All pairs are run, and the first line has false alarms and the smallest difference."""
    code, out, err = ground.run("ab", "--same", "--pairs", "10", "--json", "--", "true")
    result = json.loads(out)
    assert len(result["pairs"]) == 10
    if code == 0:
        assert result["conclusion"].startswith("no false alarm in 10 pairs of the same command; ")
    else:  # chance, at most once in twenty times
        assert (code, result["conclusion"][:11]) == (99, "false alarm"), err


def test_a_duet_runs_on_disjoint_cores(ground: Any) -> None:
    """Both runs of a pair go at the same time, each on its half of the cores; with one core there is an error."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    program = ground.program("cores.py", CORES)
    commands = [("--", sys.executable, program, *names) for names in ("ab", "ba")]
    code, out, err = ground.run("ab", "--duet", "--pairs", "4", "--seed", "7", *commands[0], *commands[1])
    assert code == 3, err
    assert "at the same time, on random halves of the cores" in out
    sides = [[set(json.loads(line)) for line in (ground.folder / name).read_text().splitlines()] for name in "ab"]
    assert len(sides[0]) == len(sides[1]) == 5
    assert not any(before & after for before, after in zip(*sides, strict=True))
    assert len({tuple(cores) for cores in sides[0]}) >= 2
    alone = (
        "import os, sys; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
        "os.execv(sys.executable, sys.argv[1:])"
    )
    words = (sys.executable, "-m", "telemetry", "ab", "--duet", "--", "true", "--", "true")
    child = ground.popen(sys.executable, "-c", alone, *words)
    _, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 2
    assert "--duet needs two cores, and this process may use only one" in err


@pytest.fixture
def repository(ground: Any) -> Callable[..., str]:
    """A repository with two commits, whose work tree has a change of its own; returns git's output."""

    def git(*words: str) -> str:
        names = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        child = ground.popen("git", *words, environ=names)
        out, err = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 0, err
        return str(out)

    job = ground.folder / "job.sh"
    git("init", "--quiet")
    git("config", "core.excludesFile", "/dev/null")
    for text in ("sleep 0.01", "sleep 0.15"):
        job.write_text(f"test -f ready && {text}\n")
        git("add", "job.sh")
        git("commit", "--quiet", "--message", text)
    job.write_text("changed here\n")
    return git


def test_two_commits_are_compared_in_checkouts(ground: Any, repository: Callable[..., str]) -> None:
    """Each checkout is prepared once, and removed at the end; the user's checkout is as it was."""
    command = ("--", "sh", "job.sh")
    setup = "touch ready && echo . >> $PREPARED"
    prepared = ground.folder / "prepared"
    before = repository("status", "--porcelain", "--", "job.sh"), repository("rev-parse", "HEAD")
    code, out, err = ground.run(
        "ab", "--refs", "HEAD~1", "HEAD", "--setup", setup, *command, environ={"PREPARED": str(prepared)}
    )
    assert code == 99, (out, err)
    assert out.startswith("HEAD is ")
    assert prepared.read_text() == ".\n.\n"
    assert (repository("status", "--porcelain", "--", "job.sh"), repository("rev-parse", "HEAD")) == before
    assert repository("worktree", "list").count("\n") == 1
    assert (ground.folder / "job.sh").read_text() == "changed here\n"

    code, out, err = ground.run("ab", "--refs", "HEAD~1", "HEAD", "--setup", "echo no; exit 4", *command)
    assert (code, out) == (1, "")
    assert "the set-up failed: exit code 4" in err
    assert repository("worktree", "list").count("\n") == 1
    code, out, err = ground.run("ab", "--refs", "HEAD", "nothing", *command)
    assert (code, out) == (2, "")
    assert "'nothing' is no commit of a git repository here" in err


def test_other_worktrees_stay(ground: Any, repository: Callable[..., str]) -> None:
    """A worktree whose folder is away for a while, as on an unmounted disk, is not forgotten."""
    other, away = ground.folder / "other", ground.folder / "away"
    repository("worktree", "add", "--quiet", "--detach", str(other))
    other.rename(away)
    short = ("ab", "--refs", "HEAD", "HEAD", "--warmup", "0", "--pairs", "1")
    code, _, err = ground.run(*short, "--", "true")
    assert code == 3, err
    away.rename(other)
    assert repository("worktree", "list").count("\n") == 2
    assert repository("-C", str(other), "status", "--porcelain") == ""

    hidden = ground.folder / "hidden"
    setup = f"mv {ground.folder}/.git {hidden}; exit 4"
    code, _, err = ground.run(*short, "--setup", setup, "--", "true")
    assert code == 1
    assert "the set-up failed: exit code 4" in err
    hidden.rename(ground.folder / ".git")


def test_a_set_up_keeps_its_secrets(ground: Any, repository: Callable[..., str]) -> None:
    """A secret of the set-up is not in the file, so --resume needs all of it again."""
    setup = ("--setup", "true --password=hunter2")
    words = ("ab", "--refs", "HEAD", "HEAD", "--warmup", "0", "--pairs", "1", *setup, "--", "true")
    code, _, err = ground.run(*words)
    assert code == 3, err
    assert "hunter2" not in results(ground)[0].read_text()
    code, _, err = ground.run("ab", "--resume", "--pairs", "2", "--", "true")
    assert code == 2
    assert "give the commands again after --resume DIR, and --setup" in err
    code, _, err = ground.run("ab", "--resume", "--pairs", "2", *setup, "--", "true")
    assert code == 3, err
    assert len(pairs_of(ground)) == 2


def test_a_folder_of_a_repository_that_is_not_utf_8(ground: Any, repository: Callable[..., str]) -> None:
    """The same folder of both checkouts is used, whatever its name."""
    folder = Path(os.fsdecode(bytes(ground.folder) + b"/sub\xff"))
    folder.mkdir()
    (folder / "file").touch()
    repository("add", str(folder / "file"))
    repository("commit", "--quiet", "--message", "sub", "--", str(folder / "file"))
    words = ("ab", "--refs", "HEAD", "HEAD", "--warmup", "0", "--pairs", "1", "--", "test", "-e", "file")
    child = ground.popen("sh", "-c", 'cd "$0" && exec "$@"', str(folder), sys.executable, "-m", "telemetry", *words)
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 3, err
    assert "1 pair of HEAD and HEAD" in out
    assert "void" not in out


def test_ctrl_c_removes_the_checkouts(ground: Any, repository: Callable[..., str]) -> None:
    """A Ctrl-C ends the runs, and no checkout is left."""
    temporary = ground.folder / "temporary"
    temporary.mkdir()
    child = ground.telemetry(
        *(
            "ab",
            "--refs",
            "HEAD~1",
            "HEAD",
            "--setup",
            "touch ready",
            "--",
            "sh",
            "-c",
            "touch $BEGUN; exec sleep 60",
        ),
        environ={"TMPDIR": str(temporary), "BEGUN": str(ground.folder / "begun")},
    )
    until(child, (ground.folder / "begun").exists)
    assert list(temporary.iterdir())
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 130, err
    assert list(temporary.iterdir()) == []
    assert repository("worktree", "list").count("\n") == 1


def test_each_run_is_prepared(ground: Any) -> None:
    """The preparation goes before each run, its time does not count, and each side may have its own."""
    prepare = ("--prepare", "sleep 0.1; echo a >> log", "--prepare", "sleep 0.1; echo b >> log")
    words = ("--shell", "--seed", "7", "--pairs", "3", *prepare, "--json")
    code, out, err = ground.run("ab", *words, "--", "echo A >> log", "--", "echo B >> log")
    assert code == 3, err
    result = json.loads(out)
    order = [(pair["first"] == "after") for pair in result["pairs"]]
    lines = [line for is_after in (False, *order) for line in ("bBaA" if is_after else "aAbB")]
    assert (ground.folder / "log").read_text().split() == lines
    assert result["settings"]["labels"] == ["echo A >> log", "echo B >> log"]
    assert all(pair["before"]["values"]["wall time"] < 0.1 for pair in result["pairs"])
    code, out, err = ground.run("ab", "--resume", "--pairs", "4")
    assert code == 3, err
    assert len((ground.folder / "log").read_text().split()) == len(lines) + 8

    code, out, err = ground.run("ab", "--prepare", "echo no; exit 4", "--", "true", "--", "true")
    assert (code, out) == (1, "")
    assert "the preparation failed: exit code 4" in err
    assert (results(ground)[-1].parent / "failed.log").read_text() == "no\n"


def test_two_values_of_a_parameter_are_compared(ground: Any) -> None:
    """The sides are called by their values, which the command and its preparation get."""
    words = ("--param", "seconds=0.15,0.01", "--prepare", "echo {seconds} >> prepared")
    code, out, err = ground.run("ab", *words, "--", "sleep", "{seconds}")
    assert code == 0, err
    assert out.startswith("seconds = 0.01 is ")
    assert "faster (wall time; " in out.split("\n")[0]
    assert set((ground.folder / "prepared").read_text().split()) == {"0.15", "0.01"}


def test_recorded_figures_are_compared(ground: Any) -> None:
    """With --metric each run has a run directory, and the figures of `compare` have verdicts.

    Settings for gates are not for these runs.
    """
    (ground.folder / "telemetry.toml").write_text('[gates]\nexpressions = ["p50(latency) < 0"]\n')
    program = ground.program("job.py", RECORDED)
    commands = [("--", sys.executable, program, value, "400") for value in ("1", "2")]
    patterns = ("--metric", "latency:p50", "--metric", "command:wall", "--decide", "latency:p50")
    few = ("--alpha", "30%", "--warmup", "0", "--pairs", "4")  # each pair starts ten processes
    code, out, err = ground.run("ab", *patterns, *few, "--json", *commands[0], *commands[1])
    assert code == 99, err
    result = json.loads(out)
    assert [(figure["name"], figure["decides"]) for figure in result["figures"]] == [
        ("wall time", False),
        ("latency p50", True),
    ]
    assert result["conclusion"].startswith("2 is 66.")
    assert "slower (latency p50; 6" in result["conclusion"]
    assert result["pairs"][0]["before"]["requests"] == 400
    (path,) = results(ground)
    runs = {pair[side]["run_id"] for pair in result["pairs"] for side in ("before", "after")}
    code, out, err = ground.run("ls", "--dir", str(path.parent), "--json")
    assert code == 0, err
    assert runs == {run["run_id"] for run in json.loads(out)}


def test_more_failed_requests_are_the_verdict(ground: Any) -> None:
    """A side that fails nearly all requests at once is no faster, although its latency is lower."""
    program = ground.program(
        "failing.py",
        "import sys, telemetry\n"
        "with telemetry.start('job') as run:\n"
        "    latency, requests = run.series('latency', unit='ms'), run.requests('chat')\n"
        "    for number in range(200):\n"
        "        request = requests.issue()\n"
        "        latency.record(float(sys.argv[1]))\n"
        "        request.fail('refused') if number % 100 < int(sys.argv[2]) else request.complete()\n",
    )
    command = ("--", sys.executable, program)
    words = ("--metric", "latency:p50", "--warmup", "0", "--pairs", "2", "--json")
    code, out, err = ground.run("ab", *words, *command, "2", "0", *command, "1", "99")
    assert code == 3, err
    result = json.loads(out)
    about = "(0 % before, 99 % after, 2 pairs)"
    assert result["conclusion"] == f"can't tell: the share of failed requests differs {about}"
    assert [pair["after"]["failed"] for pair in result["pairs"]] == [198, 198]
    assert [verdict["verdict"] for verdict in result["verdicts"]] == ["cannot_tell"]


def test_runs_with_other_numbers_of_requests_are_no_pair(ground: Any) -> None:
    """Such pairs are void; a figure that does not exist is an error after the first pair."""
    program = ground.program("job.py", RECORDED)
    command = ("--", sys.executable, program, "1")
    words = ("ab", "--warmup", "0", "--metric", "latency:p50", *command, "40", *command, "50")
    code, out, err = ground.run(*words)
    assert code == 3, err
    assert "3 pairs void: different numbers of requests: 40 and 50" in out
    words = ("ab", "--warmup", "0", "--metric", "latncy", *command, "40", *command, "40")
    code, out, err = ground.run(*words)
    assert (code, out) == (2, "")
    assert "the runs have no figure 'latncy' (did you mean latency" in err


def test_secrets_are_not_kept(ground: Any) -> None:
    """The file has no secret of a command line, so the commands have to be given again, and have to be the same."""
    secret = ("sh", "-c", "sleep 0.01", "--", "--password=hunter2")
    words = [word if word != "--" else "x" for word in secret]
    code, _, err = ground.run("ab", "--pairs", "1", "--", *words, "--", *LONG)
    assert code == 3, err
    (path,) = results(ground)
    assert "hunter2" not in path.read_text()
    code, out, err = ground.run("ab", "--resume", "--pairs", "2")
    assert (code, out) == (2, "")
    assert "give the commands again" in err
    code, out, err = ground.run("ab", "--resume", "--pairs", "2", "--", *words, "--", *SHORT)
    assert (code, out) == (2, "")
    assert "these are not the commands of the earlier pairs" in err
    code, out, err = ground.run("ab", "--resume", "--pairs", "2", "--", *words, "--", *LONG)
    assert code == 3, err
    assert len(pairs_of(ground)) == 2
