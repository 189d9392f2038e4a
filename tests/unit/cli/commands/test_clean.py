"""`telemetry clean` and the retention of runs: what is removed, and what never is."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.cli.ab.session import locked
from telemetry.cli.commands.clean import apply_retention
from telemetry.cli.main import main
from telemetry.config.load import load
from telemetry.judge.ab.model import AbResult, AbSettings, Ending
from telemetry.store.backends import WriterCheckpoint, WriterFacts, WriterFolder, writer_folder
from telemetry.store.live_runs import LiveRun, announce
from telemetry.store.run_directory import LATEST, RunDirectory, list_runs
from telemetry.store.sealed_json import write_json
from telemetry.transport import runtime_directory
from telemetry.transport.keeper_lock import KeeperLock

DAY_S = 86_400
MakeRun = Callable[..., RunDirectory]


@pytest.fixture
def aged(make_run: MakeRun) -> Callable[..., RunDirectory]:
    """`aged(run_id, days, **facts)` leaves a run that ended so many days ago; its start is as long ago."""

    def make(run_id: str, days: float, **facts: bool) -> RunDirectory:
        made = make_run("job", run_id, **facts)
        then = time.time() - days * DAY_S
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(then))
        path = made.path.rename(made.path.with_name(f"job-{stamp}-{run_id}"))
        for file in (path, *path.rglob("*")):
            os.utime(file, (then, then))
        link = path.with_name(LATEST)
        link.unlink()
        link.symlink_to(path.name)
        return RunDirectory.open(path)

    return make


@pytest.fixture
def compared(root: Path) -> Callable[..., Path]:
    """`compared(name, days, ending="decided")` leaves a comparison whose newest pair ended so many days ago."""

    def make(name: str, days: float, ending: Ending = "decided") -> Path:
        path = root / "ab" / name
        path.mkdir(parents=True)
        settings = AbSettings(before=["a"], after=["b"], labels=("a", "b"), seed=1)
        write_json(path / "ab.json", AbResult(settings=settings, most_pairs=9, ending=ending))
        (path / "output.log").write_text("x")
        then = time.time() - days * DAY_S
        os.utime(path / "ab.json", (then, then))
        return path

    return make


def comparisons(root: Path) -> set[str]:
    return {path.name for path in (root / "ab").iterdir()}


def written(run: RunDirectory, name: str) -> WriterFolder:
    """Leaves a writer that has not delivered everything."""
    folder = writer_folder(run.path, name)
    folder.make()
    folder.write_facts(WriterFacts(name=name, kind=name, to=name))
    folder.write_checkpoint(WriterCheckpoint(serial=1))
    return folder


def damage(run: RunDirectory) -> None:
    """The result is unreadable, and as old as before."""
    then = run.final.stat().st_mtime
    run.final.write_text("{}")
    os.utime(run.final, (then, then))


def ids(root: Path) -> set[str]:
    return {run.run_id for run in list_runs(root)}


def test_age_and_number_decide_together(
    aged: Callable[..., RunDirectory], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both limits: only what is old and not among the newest. One limit: it alone. The room is told."""
    for run_id, days in (("e", 50), ("d", 40), ("c", 31), ("b", 3), ("a", 1)):
        aged(run_id, days)
    assert main(["clean", "--older", "30d", "--keep", "4", "--yes"]) == 0
    assert ids(root) == {"a", "b", "c", "d"}
    assert "removed 1 run and freed " in capsys.readouterr().err
    assert main(["clean", "--older", "30d", "--yes"]) == 0
    assert ids(root) == {"a", "b"}
    assert main(["clean", "--keep", "1", "--yes"]) == 0
    assert ids(root) == {"a"}
    assert main(["clean", "--older", "30d", "--yes"]) == 0
    assert f"no run to remove in {root}, and no comparison" in capsys.readouterr().err
    assert main(["clean", "--keep", "0", "--yes"]) == 0
    assert (ids(root), os.path.lexists(root / LATEST)) == (set(), False)


def test_the_newest_run_left_is_latest(aged: Callable[..., RunDirectory], root: Path) -> None:
    """A link to a removed run would name none."""
    aged("b", 3)
    kept = aged("c", 5)
    gone = aged("a", 9)
    assert os.readlink(root / LATEST) == gone.path.name
    os.utime(kept.final)  # its result is new, whenever it began
    assert main(["clean", "--older", "4d", "--yes"]) == 0
    assert (ids(root), (root / LATEST).resolve().name[-2:]) == ({"b", "c"}, "-b")


def test_nothing_is_removed_unasked(
    aged: Callable[..., RunDirectory], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run stays with `--dry-run`, without a terminal, or without a limit. The last shows what is there."""
    aged("a", 40)
    assert main(["clean", "--older", "30d", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "40 days ago" in out
    assert "would remove 1 run of " in err
    assert main(["clean", "--older", "30d"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert main(["clean"]) == 2
    assert f"say which runs are old: {root} has 1 run of " in capsys.readouterr().err
    for wrong in (["--older", "soon"], ["--older", "-3d"], ["--keep", "-1"]):
        assert main(["clean", *wrong]) == 2
    assert ids(root) == {"a"}


def test_what_is_in_use_stays(
    aged: Callable[..., RunDirectory], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A locked run, an announced one, one that is restarted, and one that is still delivered."""
    locked, announced = aged("locked", 40, ended=False), aged("announced", 40)
    aged("kept", 40, ended=False)
    delivered = written(aged("delivered", 40), "jsonl")
    lock, keeper = locked.lock(), KeeperLock("kept")
    live = LiveRun(
        run_id="announced", name="job", pid=os.getpid(), endpoint="ipc:///x", dir=str(announced.path), state="LIVE",
        started_ns=1,
    )  # fmt: skip
    announce(runtime_directory(), live)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:  # a lock of this process would not be seen by it
        with delivered.lock.open("w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            os.write(writer, b"!")
            signal.pause()
    try:
        assert os.read(reader, 1) == b"!"
        assert main(["clean", "--keep", "0", "--yes"]) == 0
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    assert ids(root) == {"locked", "announced", "kept", "delivered"}
    said = capsys.readouterr().err
    for why in ("it is live", "its aggregator is being restarted", "it is being delivered to jsonl"):
        assert why in said
    lock.release()
    keeper.end()


def test_a_run_that_writes_during_the_look_is_named_as_live(
    aged: Callable[..., RunDirectory], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that writes during the look is named as live.

    The last sign of life is then after the start of the command, not in its future.
    """
    run = aged("live", 0, ended=False)
    lock = run.lock()

    def list_and_write(root: Path) -> list[RunDirectory]:
        runs = list_runs(root)
        time.sleep(0.02)  # longer than a tick of the clock of files
        for path in (run.path, *run.path.rglob("*")):
            os.utime(path)
        return runs

    monkeypatch.setattr("telemetry.store.run_directory.list_runs", list_and_write)
    assert main(["clean", "--keep", "0", "--yes"]) == 0
    assert f"{run.path.name} stays: it is live" in capsys.readouterr().err
    lock.release()


def test_only_directories_of_runs_are_removed(
    aged: Callable[..., RunDirectory], root: Path, tmp_path: Path
) -> None:
    """Only directories of runs are removed, and no link is followed, in the folder or in a run.

    Others' files and folders stay.
    """
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    run = aged("a", 40)
    (run.path / "link").symlink_to(precious)
    elsewhere = aged("b", 40)
    outside = elsewhere.path.rename(tmp_path / elsewhere.path.name)
    elsewhere.path.symlink_to(outside)
    (root / "job-20200101T000000Z-none").mkdir()
    (root / "notes").mkdir()
    (root / "job-20200101T000000Z-file").write_text("x")
    assert main(["clean", "--keep", "0", "--yes"]) == 0
    assert not run.path.exists()
    assert (precious / "data").exists()
    assert elsewhere.path.is_symlink()
    assert outside.exists()
    assert {path.name for path in root.iterdir()} >= {
        "job-20200101T000000Z-none", "notes", "job-20200101T000000Z-file",
    }  # fmt: skip


def test_damaged_runs_and_leftovers_go(aged: Callable[..., RunDirectory], root: Path) -> None:
    """A run without a readable result, and what an interrupted removal has left, which no list shows."""
    damage(aged("a", 40))
    aged("b", 40, ended=False)
    half = aged("c", 40)
    leftover = half.path.rename(root / f".{half.path.name}.removed")
    assert ids(root) == {"a", "b"}
    assert main(["clean", "--older", "30d", "--yes"]) == 0
    assert (ids(root), leftover.exists()) == (set(), False)


def test_what_would_be_lost_for_good_is_shown(
    aged: Callable[..., RunDirectory], capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal without a result, and a tracker that has not got everything."""
    aged("a", 40, ended=False, journal=True)
    written(aged("b", 40), "wandb")
    assert main(["clean", "--older", "30d", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "no result yet: `telemetry recover` makes it" in out
    assert "not delivered to wandb" in out


def test_retention_removes_what_a_person_would(
    aged: Callable[..., RunDirectory], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Retention is off by default and removes old finished runs only.

    The newest stay, and so do runs with something to lose.
    """
    for run_id in ("a", "b", "c"):
        aged(run_id, 40)
    aged("dead", 41, ended=False, journal=True)
    written(aged("owed", 42), "wandb")
    damage(aged("broken", 43))
    config = load({"run.dir": str(root)}).config
    apply_retention(config)
    assert len(ids(root)) == 6
    on = load({"run.dir": str(root), "retention.days": 30.0, "retention.keep": 2}).config
    apply_retention(replace(on, run=replace(on.run, dir=str(root / "missing"))))
    assert capsys.readouterr().err == ""
    apply_retention(on)
    assert ids(root) >= {"dead", "owed", "broken"}
    assert len(ids(root)) == 5
    assert "removed 1 run older than 30 days and freed " in capsys.readouterr().err


def test_comparisons_are_counted_apart_from_runs(
    aged: Callable[..., RunDirectory],
    compared: Callable[..., Path],
    root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both limits hold for comparisons as for runs. They have a list, a number and a size of their own."""
    aged("a", 40)
    aged("b", 3)
    for name, days in (("w", 50), ("x", 40), ("y", 31), ("z", 3)):
        compared(name, days)
    assert main(["clean", "--older", "30d", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(
        r"run +ended +size *\n\S+-a +40 days ago +\S+ \S+ *\n\n"
        r"comparison +ended +size *\nab/y +31 days ago +\S+ \S+ *\nab/x +40 days ago +.*\nab/w +50 days ago +.*\n",
        out,
    )
    assert re.search(r"would remove 1 run of \S+ \S+ and 3 comparisons of \S+ \S+\n", err)
    assert main(["clean", "--older", "30d", "--keep", "3", "--yes"]) == 0
    assert (ids(root), comparisons(root)) == ({"a", "b"}, {"x", "y", "z"})
    assert re.search(r"removed 1 comparison and freed [1-9]\S* \S+\n$", capsys.readouterr().err)
    assert main(["clean"]) == 2
    assert re.search(rf"{root} has 2 runs of \S+ \S+ and 3 comparisons of ", capsys.readouterr().err)
    assert main(["clean", "--keep", "1", "--yes"]) == 0
    assert (ids(root), comparisons(root)) == ({"b"}, {"z"})
    assert re.search(
        r"removed 1 run and freed .*\n.*removed 2 comparisons and freed [1-9]\S* \S+\n$", capsys.readouterr().err
    )


def test_a_live_comparison_stays(
    make_run: MakeRun, compared: Callable[..., Path], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comparison that `telemetry ab` works on, and one whose run still records after a kill."""
    worked_on, recorded = compared("worked-on", 40), compared("recorded", 40)
    run = make_run("job", "r", ended=False)
    run = RunDirectory.open(run.path.rename(recorded / run.path.name))
    lock = run.lock()
    with locked(worked_on):
        assert main(["clean", "--older", "30d", "--yes"]) == 0
    err = capsys.readouterr().err
    assert "ab/worked-on stays: it is live" in err
    assert "ab/recorded stays: it is live" in err
    lock.release()
    assert main(["clean", "--older", "30d", "--yes"]) == 0
    assert comparisons(root) == set()


def test_only_folders_of_comparisons_are_removed(
    compared: Callable[..., Path],
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Folders without a result, links, folders of others, and folders elsewhere stay."""
    compared("gone", 40)
    own = os.geteuid()
    outside = compared("linked", 40).rename(tmp_path / "outside")
    (root / "ab" / "linked").symlink_to(outside)
    (root / "ab" / "notes").mkdir()
    (root / "ab" / "file").write_text("x")
    deeper = compared("notes/deeper", 40)
    leftover = compared("half", 40).rename(root / "ab" / ".half.removed")
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: own + 1)
        assert main(["clean", "--keep", "0", "--dry-run"]) == 0
    assert "ab/gone stays: it belongs to another user" in capsys.readouterr().err
    assert main(["clean", "--keep", "0", "--yes"]) == 0
    assert comparisons(root) == {"linked", "notes", "file"}
    assert (outside / "ab.json").exists()
    assert (deeper / "ab.json").exists()
    assert not leftover.exists()
    kept = compared("kept", 40)
    leftover = compared("half", 40).rename(root / "ab" / ".half.removed")
    elsewhere = (root / "ab").rename(tmp_path / "elsewhere")
    (root / "ab").symlink_to(elsewhere)
    assert main(["clean", "--keep", "0", "--yes"]) == 0
    assert (kept / "ab.json").exists()
    assert (leftover / "ab.json").exists()


def test_retention_leaves_comparisons_without_a_result(
    compared: Callable[..., Path], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comparison that was killed or stopped, or that can't be read, is for a person to decide."""
    for number, ending in enumerate(("decided", "", "stopped", "pairs", "void", "budget")):
        compared(ending or "killed", 40 + number, ending)
    damaged = compared("damaged", 50) / "ab.json"
    damaged.write_text("{}")
    os.utime(damaged, (0, 0))
    of_others = runtime_directory() / "new.tmp"
    of_others.parent.mkdir(exist_ok=True)
    of_others.touch()
    on = load({"run.dir": str(root), "retention.days": 30.0, "retention.keep": 1}).config
    apply_retention(on)
    assert comparisons(root) == {"killed", "stopped", "decided", "damaged"}
    assert re.search(r"removed 3 comparisons older than 30 days and freed [1-9]", capsys.readouterr().err)
    assert main(["clean", "--keep", "0", "--yes"]) == 0
    assert capsys.readouterr().out.count("no result yet: `telemetry ab --resume` goes on") == 2
    assert comparisons(root) == set()
    assert of_others.exists()
