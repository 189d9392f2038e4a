"""Tests of how `telemetry export` reads its arguments. Tests of the command at work are in tests/process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from telemetry.cli.beside_run.exports import Task
from telemetry.cli.commands import export
from telemetry.cli.main import main
from telemetry.errors import UsageError
from telemetry.store.backends import WriterCheckpoint, WriterFacts, writer_folder
from telemetry.store.final_snapshot import write_final
from telemetry.store.records import RecordLog
from telemetry.store.request_log import FILE_NAME, RequestLogWriter
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.testing import ended
from telemetry.wire.events import ClosedStep, Mark, StreamRecord
from telemetry.wire.request_log import LoggedRecords
from telemetry.wire.snapshot import MetricsSnapshot, RequestLogStat
from telemetry.wire.version import PROTOCOL


def writer(run: Path, name: str, to: str, *, done: bool = False) -> None:
    folder = writer_folder(run, name)
    folder.make()
    folder.write_facts(WriterFacts(name=name, kind="jsonl", to=to, every_s=3.0, cwd="/"))
    folder.write_checkpoint(WriterCheckpoint(done=done))


def test_a_name_has_one_writer(tmp_path: Path) -> None:
    """The same once more goes on with it; another of that name is told how to be called."""
    writer(tmp_path, "jsonl", "jsonl:path=a")
    assert export._task(tmp_path, "jsonl", "jsonl:path=a", 2.0) == Task("jsonl", "jsonl:path=a", 2.0)
    assert export._task(tmp_path, "b", "jsonl:as=b", None) == Task("b", "jsonl:as=b")
    with pytest.raises(UsageError, match="--to jsonl:as=jsonl-2"):
        export._task(tmp_path, "jsonl", "jsonl", None)


def test_what_is_not_done_is_resumed_as_it_was_told(tmp_path: Path) -> None:
    """A writer that is not done is resumed as it was told, in its working directory.

    `--to` selects some and gives them new options.
    """
    writer(tmp_path, "a", "jsonl:as=a")
    writer(tmp_path, "b", "jsonl:as=b", done=True)
    writer(tmp_path, "c", "jsonl:path=http://u:***@h,as=c")
    given = "jsonl:path=http://u:pw@h,as=c"
    first = Task("a", "jsonl:as=a", 3.0, "/")
    assert export._unfinished(tmp_path, {"c": given}) == [Task("c", given, 3.0, "/")]
    assert export._unfinished(tmp_path, {"a": "jsonl:as=a"}) == [first]
    assert export._unfinished(tmp_path, {"b": "jsonl:as=b"}) == []
    (tmp_path / "backends" / "a").rename(tmp_path / "backends" / "moved")
    assert export._unfinished(tmp_path, {"moved": "jsonl:as=moved"})[0].name == "moved"
    (tmp_path / "backends" / "moved").rename(tmp_path / "backends" / "a")
    with pytest.raises(UsageError, match="the options of c contain a secret"):
        export._unfinished(tmp_path, {})
    with pytest.raises(UsageError, match=r"no writer named d .*its writers: a, b, c"):
        export._unfinished(tmp_path, {"d": "jsonl:as=d"})


def test_what_was_delivered_earlier_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier delivery is reported without a look whether it is still there.

    A checkpoint that can't be read is for the writer to report.
    """
    writer(tmp_path, "a", "jsonl:as=a", done=True)
    writer(tmp_path, "b", "jsonl:as=b")
    writer(tmp_path, "c", "jsonl:as=c")
    writer_folder(tmp_path, "c").checkpoint.write_text("{")
    export._say_what_is_done(tmp_path, ["a", "b", "c", "new"])
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("telemetry: a: delivered earlier, not checked again; ")
    assert said.endswith(f"remove {tmp_path}/backends/a to deliver the run again")


def test_nothing_to_deliver_is_said_of_those_that_were_named(tmp_path: Path) -> None:
    """A message of nothing to deliver names the backends of `--to` and the others that are not done."""
    writer(tmp_path, "a", "jsonl:as=a", done=True)
    assert export._nothing_to_deliver(tmp_path, []).endswith("are done")
    assert export._nothing_to_deliver(tmp_path, ["a"]) == "nothing to deliver: a is done already"
    writer(tmp_path, "b", "jsonl:as=b")
    writer(tmp_path, "c", "jsonl:as=c")
    writer_folder(tmp_path, "c").checkpoint.write_text("{")
    assert export._nothing_to_deliver(tmp_path, ["a"]).endswith(
        "a is done already; not done and not selected: b, c"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export"], "no backend to export to"),
        (["export", "--to", "jsnl"], "did you mean jsonl?"),
        (["export", "--to", "jsonl", "--every", "often"], "is not a number of seconds"),
        *[
            (
                ["export", "--to", "jsonl", "--every", text],
                f"--every {text} is out of range: give one second to one day",
            )
            for text in ("-1", "0", "0.2", "nan", "86401")
        ],
        (["export", "x", "--writer"], "--writer requires exactly one --to"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong argument is an error before any run is looked for."""
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is missing is an error, as with every command."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert main(["export", "nothing", "--dir", str(tmp_path), "--to", "jsonl"]) == 1
    assert "no run 'nothing'" in capsys.readouterr().err


def with_steps(directory: RunDirectory) -> None:
    """Give a run two closed steps."""
    directory.records.mkdir(exist_ok=True)
    steps = [ClosedStep("train", at, {"loss": 1.0 / (at + 1)}) for at in range(2)]
    records = [StreamRecord(PROTOCOL, "a1", at, "p", 10**18, step) for at, step in enumerate(steps)]
    RecordLog(directory.records).append(records)


@pytest.mark.sdk
def test_steps_go_to_files(make_run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Each in the form of its suffix; the number of rows is a message."""
    with_steps(make_run("job", "a1"))
    assert main(["export", "job", "--steps", "s.csv", "--steps", "s.parquet"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()) == (
        "",
        ["telemetry: wrote s.csv: 2 values of steps", "telemetry: wrote s.parquet: 2 values of steps"],
    )
    assert Path("s.csv").read_text().splitlines()[1].startswith("train,0,2001-09-09T01:46:40.000000000Z,loss,1.0")
    assert Path("s.parquet").exists()


def test_steps_that_cannot_be_exported_are_said(make_run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps need a record log that has some, and a suffix with a format.

    A backend beside the file is refused as well.
    """
    make_run("none", "b1")
    empty = make_run("empty", "c1")
    empty.records.mkdir(exist_ok=True)
    RecordLog(empty.records).append([StreamRecord(PROTOCOL, "c1", 0, "p", 10**18, Mark("load begins"))])
    assert main(["export", "empty", "--steps", "s.csv"]) == 1
    assert "the run has no steps" in capsys.readouterr().err
    with_steps(make_run("job", "a1"))
    assert main(["export", "none", "--steps", "s.csv"]) == 1
    assert "the run has no record log" in capsys.readouterr().err
    assert main(["export", "job", "--steps", "s.xlsx"]) == 2
    assert "use one of .csv, .jsonl, .parquet" in capsys.readouterr().err
    assert main(["export", "job", "--steps", "s.csv", "--to", "jsonl"]) == 2
    assert "--steps writes files, not to backends" in capsys.readouterr().err
    assert not Path("s.csv").exists()


@pytest.fixture
def with_requests(tmp_path: Path) -> Path:
    """A run directory whose log has three requests and lacks two."""
    run = RunDirectory.create(tmp_path, "job", "r1", 10**18)
    run.write_manifest(Manifest(run_id="r1", name="job"))
    record = replace(ended(range(3)), left_out=2)
    log = RequestLogWriter(run.requests)
    log.append([LoggedRecords("p", 0, 0, [Raw(msgspec.msgpack.encode(record))])], 0)
    log.close()
    return run.path


def test_requests_are_written_to_each_file(
    with_requests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests are written to each file, and what the log lacks is reported once. Standard output stays empty."""
    files = [tmp_path / "a.csv", tmp_path / "b.jsonl"]
    assert (
        main(["export", str(with_requests), *(word for file in files for word in ("--requests", str(file)))]) == 0
    )
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.removeprefix("telemetry: ") for line in err.splitlines()] == [
        f"wrote {files[0]}: 3 requests",
        f"wrote {files[1]}: 3 requests",
        "the request log lacks 2 of 5 requests: their programs could not send them in time",
    ]
    assert [len(file.read_text().splitlines()) for file in files] == [4, 3]


def test_a_log_that_is_cut_short_is_not_exported_in_silence(
    with_requests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result knows how many requests were logged, also where the file was removed or a disk was full."""
    run = RunDirectory.open(with_requests)
    stat = RequestLogStat(kept=7)
    write_final(MetricsSnapshot(run_id="r1", name="job", state="COMPLETE", request_log=stat), [run.final])
    assert main(["export", str(with_requests), "--requests", str(with_requests / "r.csv")]) == 0
    path = run.requests / FILE_NAME
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == f"telemetry: 7 requests were logged and 4 of them are missing from {path}"
    path.unlink()
    assert main(["export", str(with_requests), "--requests", str(with_requests / "r.csv")]) == 0
    assert "7 requests were logged and 7 of them are missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requests", "r.csv", "--to", "jsonl"], "--requests writes files, not to backends"),
        (["--requests", "r.xlsx"], "the suffix .xlsx of r.xlsx does not select a format for requests"),
    ],
)
def test_files_of_requests_that_can_not_be_written(
    with_requests: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that says what to do, and exit code 2."""
    assert main(["export", str(with_requests), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
