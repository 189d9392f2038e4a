"""Tests of the calls that `telemetry ab` refuses before it runs anything. Other tests are in tests/process."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

import pytest

from telemetry.cli.ab.session import locked
from telemetry.cli.commands.ab import _labels
from telemetry.cli.main import main
from telemetry.common.file_lock import lock_path

TWO = ("--", "true", "--", "true")
ONE = ("--", "true")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "two commands are needed"),
        (ONE, "two commands are needed"),
        (["--", "true", "--"], "2 commands, or an empty one"),
        ([*TWO, "--", "true"], "3 commands, or an empty one"),
        (["true", *ONE], "unexpected argument 'true'"),
        (["--same", *TWO], "--same takes one command"),
        (["--refs", "a", "b", *TWO], "--refs takes one command"),
        (["--refs", "a", "b", "--same", *ONE], "--refs and --same can't be combined"),
        (["--setup", "make", *TWO], "--setup prepares the checkouts of --refs"),
        (["--param", "a=1,2", "--same", *ONE], "--param and --same can't be combined"),
        (["--param", "a=1,2", *TWO], "--param takes one command"),
        (["--param", "a=1", "--", "echo", "{a}"], "--param a=1 has 1 value"),
        (["--param", "a=1,2,3", "--", "echo", "{a}"], "--param a=1,2,3 has 3 values"),
        (["--param", "a=1,2", "--", "echo", "{b}"], "the command does not use parameter a"),
        (["--param", "a", *ONE], "'a' is not a parameter with a value"),
        (["--shell", "--", "true", "--", "sleep", "1"], "--shell takes each command as one text"),
        ([*("--prepare", "true") * 3, *TWO], "--prepare is given more than twice"),
        (["--pairs", "0", *TWO], "--pairs 0 is out of range"),
        (["--pairs", "1001", *TWO], "from 1 to 1,000"),
        (["--warmup", "-1", *TWO], "--warmup -1 is out of range"),
        (["--alpha", "0", *TWO], "--alpha is out of range"),
        (["--alpha", "100%", *TWO], "--alpha is out of range"),
        (["--min-effect", "1", *TWO], "--min-effect is out of range"),
        (["--budget", "soon", *TWO], "'soon' is not a time"),
        (["--budget", "0s", *TWO], "--budget 0s is no time above 0 s"),
        (["--resume"], "no result of `telemetry ab`"),
        (["--resume", "nowhere"], "has no ab.json"),
        (["--format", "csv", *TWO], "invalid choice: 'csv'"),
        ([*ONE, "--", "no-such-program"], "no-such-program can't be started: No such file or directory"),
        ([*ONE, "--", "./no-such-program"], "./no-such-program can't be started: No such file or directory"),
        ([*ONE, "--", "/etc/passwd"], "/etc/passwd can't be started: Permission denied"),
    ],
)
def test_calls_that_are_refused(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """A wrong call names its error, and nothing is run."""
    assert main(["ab", *words]) == (1 if "--resume" in words else 2)
    assert message in capsys.readouterr().err
    assert not root.exists()


def test_an_earlier_result_keeps_its_options(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the limits may change with --resume; another command begins anew."""
    assert main(["ab", "--pairs", "1", "--warmup", "0", "--", "sleep", "0.001", "--", "sleep", "0.002"]) == 3
    before = next(root.glob("ab/*/ab.json")).read_bytes()
    capsys.readouterr()
    for words, message in (
        (["--min-effect", "5%"], "--min-effect can't change with --resume"),
        (["--same"], "--same can't change with --resume"),
        (["--warmup", "0"], "--warmup can't change with --resume"),
        (["--prepare", "true"], "these are not the commands of the earlier pairs"),
        (["--setup", "true"], "these are not the commands of the earlier pairs"),
        (TWO, "these are not the commands of the earlier pairs"),
    ):
        assert main(["ab", "--resume", *(words if words is TWO else ["", *words][1:])]) == 2
        assert message in capsys.readouterr().err
    assert next(root.glob("ab/*/ab.json")).read_bytes() == before
    assert main(["ab", "--resume"]) == 3
    assert re.match("can't tell: wall time ", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"alpha": 0.05', b'"alpha": 0', r"Expected .* at `\$\.settings\."),
        (b'"warmup": 1', b'"warmup": -1', r"Expected .* at `\$\.settings\."),
        (b'"before": [', b'"before": 7, "x": [', r"Expected .* at `\$\.settings\."),
        (b'"failed": 0', b'"failed": -1', r"Expected .* at `\$\.pairs\[0\]\.before"),
        (b'"final": []', b'"final": [{"figure":"a","low":-1.1}]', r"Expected .* at `\$\.final\[0\]\.low`"),
        (b'"final": []', b'"final": [{"figure":"a","high":1e306}]', r"Expected .* at `\$\.final\[0\]\.high`"),
        (b'"final": []', b'"final": [{"figure":"a","needed":-1}]', r"Expected .* at `\$\.final\[0\]\.needed`"),
        (b'"failed": 0', b'"failed": 1', r"1 of 0 requests failed - at `\$\.pairs\[0\]\.before"),
    ],
)
def test_a_damaged_file_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str], *, old: bytes, new: bytes, message: str
) -> None:
    """A file with numbers that no call can have written is damaged, and the message names it."""
    assert main(["ab", "--pairs", "1", *TWO]) == 3
    path = next(root.glob("ab/*/ab.json"))
    data = path.read_bytes()
    assert old in data
    path.write_bytes(re.sub(rb',\s*"crc": "\w+"', b"", data.replace(old, new)))
    assert main(["ab", "--resume"]) == 1
    assert re.search(rf"ab\.json is damaged: {message}", capsys.readouterr().err)


def test_a_figure_that_decides_has_to_exist(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern that matches no figure of a command is an error, with those that there are."""
    assert main(["ab", "--decide", "command:walls", *TWO]) == 2
    assert "command has: cpu, wall" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "labels"),
    [
        ("./old --fast", "./new --fast", ("./old", "./new")),
        ("python a.py 1", "python b.py 1", ("python a.py 1", "python b.py 1")),
        (f"python {'/deep' * 9}/a.py 1", f"python {'/deep' * 9}/a.py 2", ("1", "2")),
        ("python a.py 1", "python a.py", ("python a.py 1", "python a.py")),
        ("python a.py", "python a.py", ("python a.py", "python a.py")),
        ("/bin/sh -c a|b", "/bin/sh -c b", ("a|b", "b")),
        (f"x {'y' * 60}", "x z q", ("x yyyyyyyyyyyyyyyyyy…yyyyyyyyyyyyyyyyyyy", "x z q")),
    ],
)
def test_sides_are_called_by_what_differs(before: str, after: str, labels: tuple[str, str]) -> None:
    """The names of both sides are short, and differ where the commands do."""
    assert _labels(before.split(), after.split()) == labels


def test_a_summary_and_its_picture_are_files(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The picture is beside the summary. Without a figure there is none."""
    path = tmp_path / "of it.md"
    assert main(["ab", "--pairs", "1", "--summary", str(path), *TWO]) == 3
    assert path.read_text().endswith("\n[picture of the intervals](of%20it.svg)\n")
    assert (tmp_path / "of it.svg").read_text().startswith("<svg xmlns=")
    empty = tmp_path / "empty.md"
    words = [
        "--metric",
        "x",
        "--warmup",
        "0",
        "--pairs",
        "1",
        "--summary",
        str(empty),
        "--",
        "false",
        "--",
        "false",
    ]
    assert main(["ab", *words]) == 3
    assert "picture" not in empty.read_text()
    assert not empty.with_suffix(".svg").exists()


@pytest.mark.parametrize(
    ("parameter", "command", "labels"),
    [
        (f"t=ghp_{'a' * 36},ghp_{'b' * 36}", "true {t}", ("t = *** (before)", "t = *** (after)")),
        ("token=hunter-aa,hunter-bb", "true token={token}", ("token = *** (before)", "token = *** (after)")),
        ("pw=hunter-aa,hunter-bb", "true --password {pw}", ("pw = *** (before)", "pw = *** (after)")),
        (
            "url=http://me:hunter-aa@a,http://me:hunter-aa@b",
            "true {url}",
            ("url = http://me:***@a", "url = http://me:***@b"),
        ),
        ("n=1,2", "true --password=zz {n}", ("n = 1", "n = 2")),
    ],
)
@pytest.mark.parametrize("where", ["command", "prepare"])
def test_values_that_are_secret_are_masked(
    root: Path, tmp_path: Path, *, where: str, parameter: str, command: str, labels: tuple[str, str]
) -> None:
    """No form of the result has a value that is masked in the commands. Other values are in the labels."""
    words = ["--pairs", "1", "--warmup", "0", "--summary", str(tmp_path / "summary.md"), "--param", parameter]
    for suffix in ("txt", "json", "md", "html", "xml"):
        words += ["-o", str(tmp_path / f"ab.{suffix}")]
    words += ["--", *command.split()] if where == "command" else ["--prepare", command, *ONE]
    assert main(["ab", *words]) == 3
    (file,) = root.glob("ab/*/ab.json")
    settings = json.loads(file.read_text())["settings"]
    assert tuple(settings["labels"]) == labels
    texts = {path: path.read_text() for path in (file, *tmp_path.iterdir())}
    assert len(texts) == 8
    assert [path for path, text in texts.items() if "hunter" in text or "ghp_" in text] == []
    assert labels[0] in texts[tmp_path / "ab.txt"]


def test_the_name_of_a_parameter_makes_its_values_secret(root: Path) -> None:
    """The labels have no password, even if the command does not say what the word is."""
    assert main(["ab", "--pairs", "1", "--param", "password=aa,bb", "--", "true", "{password}"]) == 3
    labels = json.loads(next(root.glob("ab/*/ab.json")).read_text())["settings"]["labels"]
    assert labels == ["password = *** (before)", "password = *** (after)"]


def test_long_shell_commands_are_called_by_what_differs() -> None:
    """Only the differing words are left of two long texts for the shell."""
    texts = [f"sort {'deep/' * 9}file{number} | uniq" for number in (1, 2)]
    first, second = _labels(["/bin/sh", "-c", texts[0]], ["/bin/sh", "-c", texts[1]])
    assert first != second
    assert first.endswith("file1")


def test_annotations_have_the_text(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text is in the section, and only there. Another format would not fit into the same stream."""
    assert main(["ab", "--pairs", "1", "--annotate", "github", *TWO]) == 3
    out = capsys.readouterr().out
    assert out.startswith("::group::can't tell: wall time ")
    assert out.count("smallest difference that matters") == 1
    assert out.splitlines()[-1].startswith("::warning title=telemetry ab::can't tell: wall time ")
    assert main(["ab", "--json", "--annotate", "gitlab", *TWO]) == 2
    assert "--annotate gitlab goes to stdout too" in capsys.readouterr().err


def test_the_newest_result_has_pairs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A call that fails before its first pair is not the newest result."""
    assert main(["ab", "--pairs", "1", *TWO]) == 3
    good = next(root.glob("ab/*/ab.json"))
    assert main(["ab", "--prepare", "exit 4", *TWO]) == 1
    assert len(list(root.glob("ab/*/ab.json"))) == 2
    assert main(["ab", "--resume", "--pairs", "2"]) == 3
    assert len(json.loads(good.read_text())["pairs"]) == 2
    good.parent.rename(good.parent.with_name(f".{good.parent.name}.removed"))
    assert main(["ab", "--resume"]) == 1
    assert "no result of `telemetry ab` with a pair in " in capsys.readouterr().err


def test_one_call_at_a_time_has_the_folder(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second call for the same folder is an error, and leaves the result as it is."""
    assert main(["ab", "--pairs", "1", *TWO]) == 3
    path = next(root.glob("ab/*/ab.json"))
    before = path.read_bytes()
    with locked(path.parent):
        assert main(["ab", "--resume", "--pairs", "2"]) == 2
    assert "another `telemetry ab` works in " in capsys.readouterr().err
    assert path.read_bytes() == before
    assert main(["ab", "--resume", "--pairs", "2"]) == 3


def test_a_look_at_the_lock_ends_no_call(tmp_path: Path) -> None:
    """`telemetry clean` has the lock for a moment. A call that begins then waits for it."""
    look = lock_path(tmp_path, os.O_DIRECTORY, shared=True)
    assert look is not None
    end_of_look = threading.Timer(0.05, look.release)
    end_of_look.start()
    with locked(tmp_path):
        assert look.fd == -1
    end_of_look.join()


@pytest.mark.parametrize("option", ["--password=hunter2", "\udcff"])
def test_texts_that_are_not_kept_are_given_again(
    root: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """A preparation with a secret, or not in UTF-8, is not in the file as it is, so --resume needs it."""
    prepare = ("--prepare", f"true {option}")
    assert main(["ab", "--pairs", "1", *prepare, *TWO]) == 3
    assert "hunter2" not in next(root.glob("ab/*/ab.json")).read_text(encoding="utf-8")
    capsys.readouterr()
    for words in ((), TWO, prepare):
        assert main(["ab", "--resume", "--pairs", "2", *words]) == 2
        error = capsys.readouterr().err
        assert "the commands have secrets, or bytes that are not UTF-8, which are not kept" in error
        assert "give the commands again after --resume DIR, and --prepare" in error
    assert main(["ab", "--resume", "--pairs", "2", "--prepare", "true x", *TWO]) == 2
    assert "these are not the commands of the earlier pairs" in capsys.readouterr().err
    assert main(["ab", "--resume", "--pairs", "2", *prepare, *TWO]) == 3


def test_a_folder_that_is_not_utf_8(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pairs are run in such a folder, and go on there; elsewhere the message names it."""
    folder = os.fsdecode(bytes(root.parent) + b"/sub\xff")
    os.mkdir(folder)
    monkeypatch.chdir(folder)
    words = ("--dir", str(root), "--pairs")
    assert main(["ab", *words, "1", "--metric", "\udcff", "--decide", "\udcff", *TWO]) == 2
    assert main(["ab", *words, "1", *TWO]) == 3
    assert main(["ab", "--resume", *words, "2"]) == 3
    monkeypatch.chdir("/")
    capsys.readouterr()
    assert main(["ab", "--resume", *words, "3"]) == 2
    assert "sub\N{REPLACEMENT CHARACTER}, where the earlier pairs were run" in capsys.readouterr().err
    assert main(["ab", "--resume", *words, "2"]) == 3


def test_the_budget_is_for_pairs(root: Path) -> None:
    """The warm-up takes longer than the budget, and yet there is a pair. So has a later call with more of it."""
    slow = ("--", "sleep", "0.2")
    for words in (["--budget", "100ms", *slow, *slow], ["--resume", "--budget", "500ms"]):
        assert main(["ab", *words]) == 3
    result = json.loads(next(root.glob("ab/*/ab.json")).read_text())
    assert (result["ending"], len(result["pairs"])) == ("budget", 2)
    assert 0.8 <= result["seconds"] < 2


def test_the_verdict_is_a_message_if_the_result_is_a_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result in files only leaves its first line on stderr."""
    assert main(["ab", "--pairs", "1", "-o", "ab.md", *TWO]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("telemetry: can't tell: wall time ")
