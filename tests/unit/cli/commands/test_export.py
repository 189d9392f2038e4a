"""What `telemetry export` makes of its arguments; tests/process has the command at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.cli.beside_run.exports import Task
from telemetry.cli.commands import export
from telemetry.cli.main import main
from telemetry.errors import UsageError
from telemetry.store.backends import Checkpoint, WriterFacts, writer_folder


def writer(run: Path, name: str, to: str, *, done: bool = False) -> None:
    folder = writer_folder(run, name)
    folder.make()
    folder.write_facts(WriterFacts(name=name, kind="jsonl", to=to, every_s=3.0, cwd="/"))
    folder.write_checkpoint(Checkpoint(done=done))


def test_a_name_has_one_writer(tmp_path: Path) -> None:
    """The same once more goes on with it; another of that name is told how to be called."""
    writer(tmp_path, "jsonl", "jsonl:path=a")
    assert export._task(tmp_path, "jsonl", "jsonl:path=a", 2.0) == Task("jsonl", "jsonl:path=a", 2.0)
    assert export._task(tmp_path, "b", "jsonl:as=b", None) == Task("b", "jsonl:as=b")
    with pytest.raises(UsageError, match="--to jsonl:as=jsonl-2"):
        export._task(tmp_path, "jsonl", "jsonl", None)


def test_what_is_not_done_is_resumed_as_it_was_told(tmp_path: Path) -> None:
    """In its working directory; `--to` names some of them, and tells them anew."""
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
    """Nobody looks whether it is still there; a checkpoint that can't be read is the writer's to say."""
    writer(tmp_path, "a", "jsonl:as=a", done=True)
    writer(tmp_path, "b", "jsonl:as=b")
    writer(tmp_path, "c", "jsonl:as=c")
    writer_folder(tmp_path, "c").checkpoint.write_text("{")
    export._say_what_is_done(tmp_path, ["a", "b", "c", "new"])
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("telemetry: a: delivered earlier, not checked again; ")
    assert said.endswith(f"remove {tmp_path}/backends/a to deliver the run again")


def test_nothing_to_deliver_is_said_of_those_that_were_named(tmp_path: Path) -> None:
    """And what is left for others."""
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
    """Before any run is looked for."""
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by every command."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert main(["export", "nothing", "--dir", str(tmp_path), "--to", "jsonl"]) == 1
    assert "no run 'nothing'" in capsys.readouterr().err
