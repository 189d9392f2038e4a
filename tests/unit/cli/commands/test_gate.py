"""`telemetry gate` on runs on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.unit.history.runs import Making

from telemetry.cli.main import main
from telemetry.store.gate_results import write_gates
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import CommandFacts

Make = Callable[..., RunDirectory]


def test_outcomes_are_exit_codes(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """0, 99, 3; a failure outweighs what nobody can tell."""
    make_run("job", "a1")
    assert main(["gate", "job", "value(requests) == 7"]) == 0
    assert main(["gate", "job", "value(requests) == 7", "value(requests) > 7"]) == 99
    assert main(["gate", "job", "value(nobody) > 7"]) == 3
    assert main(["gate", "job", "value(nobody) > 7", "lost > 0"]) == 99
    out = capsys.readouterr().out
    assert "fail: 1 fail, 1 inconclusive · complete: job, 7 of 7 events applied, 0 lost" in out
    assert "  inconclusive  value(nobody) > 7\n" in out


def test_flags_may_stand_anywhere(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """Flags may stand anywhere, also between the run and its gates."""
    make_run("job", "a1")
    for words in (
        ["--json", "job", "lost == 0", "applied == 7"],
        ["job", "--json", "lost == 0", "applied == 7"],
        ["job", "lost == 0", "--format", "json", "applied == 7"],
        ["job", "lost == 0", "applied == 7", "--json"],
    ):
        assert main(["gate", *words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [gate["expression"] for gate in found["gates"]] == ["lost == 0", "applied == 7"]


def test_json_names_the_run_and_the_worst(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON names the run and the worst outcome, with the field names of the structs."""
    directory = make_run("job", "a1", completeness="incomplete")
    assert main(["gate", "a1", "value(requests) < 100", "completeness == incomplete", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["run_id"], found["name"]) == (1, "a1", "job")
    assert (found["directory"], found["completeness"]) == (str(directory.path), "incomplete")
    assert found["outcome"] == "inconclusive"
    first, second = found["gates"]
    assert (first["outcome"], first["value"], first["limit"]) == ("inconclusive", 7, 100)
    assert "the number of missing events is unknown" in first["reason"]
    assert second["outcome"] == "pass"


@pytest.mark.parametrize(
    ("facts", "ending", "code"),
    [
        ({"exit_code": 3}, "command failed: exit code 3", 3),
        ({"signal": "SIGSEGV"}, "command ended by SIGSEGV (segmentation fault)", None),
    ],
)
def test_a_command_that_failed_is_told(
    make_run: Make, capsys: pytest.CaptureFixture[str], facts: dict[str, Any], ending: str, code: int | None
) -> None:
    """Gates are about figures, so they may pass all the same; each form says it, and a gate may be about it."""
    make_run("job", "a1", command=CommandFacts(argv=["python", "bench.py"], **facts))
    words = ["gate", "job", "lost == 0"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"{ending} · python bench.py",
        "pass: 1 pass · complete: job, 7 of 7 events applied, 0 lost",
    ]
    assert main([*words, "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith(f"**{ending} · python bench.py**\n\n**pass: 1 pass** · ")
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["exit_code"], found["signal"]) == ("pass", code, facts.get("signal"))
    assert main([*words, "--format", "junit"]) == 0
    cases = ElementTree.fromstring(capsys.readouterr().out).findall(".//testcase")
    (failure,) = [case.find("failure") for case in cases if case.get("name") == "the command succeeded"]
    assert failure is not None
    assert failure.get("message", "").startswith(ending)
    assert main([*words, "command.exit_code == 0"]) == 99


def test_files_and_forms(make_run: Make, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The suffix says the form; JUnit has a case for each gate."""
    make_run("job", "a1")
    words = ["gate", "job", "lost == 0", "value(requests) > 9"]
    assert main([*words, "-o", "gates.xml"]) == 99
    cases = ElementTree.parse("gates.xml").getroot().findall(".//testcase")
    assert [case.get("name") for case in cases][1:] == ["lost == 0", "value(requests) > 9"]
    assert cases[2].find("failure") is not None
    assert main([*words, "-o", "gates.md"]) == 99
    assert "| fail | `value(requests) > 9` |" in Path("gates.md").read_text()
    assert main([*words, "-o", "gates.json"]) == 99
    assert json.loads(Path("gates.json").read_text())["outcome"] == "fail"
    assert main([*words, "-o", "gates.txt"]) == 99
    assert Path("gates.txt").read_text().startswith("fail: 1 fail, 1 pass")
    assert capsys.readouterr().out == ""
    assert main([*words, "-o", "nowhere/gates.txt"]) == 1


def test_gates_of_the_settings(make_run: Make, root: Path) -> None:
    """Unless some are given; so the baseline and how strict they are."""
    make_run("job", "a1")
    make_run("base", "b2")
    Path("telemetry.toml").write_text(
        '[gates]\nexpressions = ["value(requests) > baseline"]\nbaseline = "base"\nconfident = true\n'
    )
    assert main(["gate", "job"]) == 99
    assert main(["gate", "job", "lost == 0"]) == 0
    assert main(["gate", "job", "--baseline", "nobody"]) == 3


def test_a_baseline_that_is_not_there_is_no_error(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """The first run of a project has none: nobody can tell."""
    make_run("job", "a1")
    assert main(["gate", "job", "value(requests) <= baseline", "--baseline", "nobody"]) == 3
    assert "can't read the baseline: no run 'nobody'" in capsys.readouterr().out
    assert main(["gate", "job", "lost == 0", "--baseline", "nobody"]) == 0


def test_a_baseline_that_is_not_there_names_similar_runs(
    make_run: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped name is told as it is elsewhere."""
    make_run("before", "a1")
    assert main(["gate", "before", "value(requests) <= baseline", "--baseline", "befor"]) == 3
    assert "(did you mean before?)" in " ".join(capsys.readouterr().out.split())


def test_a_calibration_that_was_asked_for_has_to_be_there(make_run: Make) -> None:
    """One of the run's own name is used if there is one."""
    make_run("job", "a1")
    words = ["gate", "job", "value(requests) <= baseline", "--baseline", "job"]
    assert main(words) == 0
    assert main([*words, "--calibration", "nobody"]) == 1
    assert main(["gate", "job", "lost == 0", "--calibration", "nobody"]) == 1


def test_the_part_that_was_looked_at_is_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report names the real start and end of the examined part. A report of a whole run has no such words."""
    Making(root).run([[(0, 5.0)] * 400] * 9)
    words = ["gate", "job", "p99(latency) < 9ms"]
    for flags, said in (
        (["--from", "2s", "--to", "4s"], "0 lost · only 2.00 s to 4.00 s of the run\n"),
        (["--from", "2s", "--to", "4s", "--format", "md"], "0 lost · only 2.00 s to 4.00 s of the run\n"),
        ([], "0 lost\n"),
    ):
        main([*words, *flags])
        assert capsys.readouterr().out.partition("\n")[0].endswith(said[:-1])


def test_a_suffix_that_says_no_form_is_refused(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A suffix without a format is refused as in `report`, since text in a .csv serves nobody.

    With `--format` any name will do.
    """
    make_run("job", "a1")
    assert main(["gate", "job", "lost == 0", "-o", "gates.csv"]) == 2
    assert "the suffix .csv of gates.csv does not select a format" in capsys.readouterr().err
    assert not Path("gates.csv").exists()
    assert main(["gate", "job", "lost == 0", "-o", "gates.csv", "--format", "text"]) == 0
    assert main(["gate", "job", "lost == 0", "-o", "gates"]) == 0


def test_several_forms_at_once(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A file for a dashboard and one for people, or a folder for all."""
    make_run("job", "a1")
    assert main(["gate", "job", "lost == 0", "-o", "gates.xml", "-o", "sums/none.md"]) == 1
    assert "can't write sums/none.md" in capsys.readouterr().err
    assert main(["gate", "job", "lost == 0", "-o", "gates.xml", "-o", "gates.md"]) == 0
    assert Path("gates.xml").read_text().startswith("<?xml")
    assert Path("gates.md").read_text().startswith("**pass: 1 pass**")
    assert main(["gate", "job", "lost == 0", "--json", "--format", "junit", "-o", "sums/"]) == 0
    assert sorted(path.name for path in Path("sums").iterdir()) == ["gates.json", "gates.xml"]
    assert main(["gate", "job", "lost == 0", "--json", "--format", "junit"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["lost == 0"],
            "expected a run, got 'lost == 0' (give the run first",
        ),
        (["job"], "no gates to check"),
        (["job", "lost = 0"], "did you mean `==`?\n  lost = 0\n       ^\n"),
        (["job", "p99(requests) < 1"], "`requests` is a counter"),
        (["job", "value(requests) < 1ms"], "they can't be compared"),
        (["job", "lost == 0", "--from", "x"], "--from"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    make_run: Make, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Exit 2, and nothing on stdout."""
    make_run("job", "a1")
    assert main(["gate", *words]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert said in found.err


def test_a_part_needs_a_history(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A part of a run without a history is an error, and windows are inconclusive."""
    make_run("job", "a1")
    assert main(["gate", "job", "value(requests) < 9", "--steady"]) == 1
    assert "has no history" in capsys.readouterr().err
    assert main(["gate", "job", "value(requests) < 9 in every 1s"]) == 3


def test_a_run_that_goes_on_or_is_not_there(make_run: Make) -> None:
    """Exit 1: there is no result to check."""
    make_run("dead", "a1", ended=False)
    assert main(["gate", "dead", "lost == 0"]) == 1
    assert main(["gate", "nobody", "lost == 0"]) == 1


def test_gates_of_a_run_are_in_its_report(make_run: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A report has the gates that `telemetry run` was given. A damaged file of gates costs only them."""
    directory = make_run("job", "a1")
    write_gates(directory.path, [GateResult(expression="lost == 0", outcome="pass", reason="0 == 0")])
    assert main(["report", "job", "--full"]) == 0
    assert "lost == 0" in capsys.readouterr().out
    (directory.path / "gates.json").write_text("{")
    assert main(["report", "job"]) == 0
    assert "gates.json is damaged" in capsys.readouterr().out
