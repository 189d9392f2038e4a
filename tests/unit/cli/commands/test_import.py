"""`telemetry import`, and what other commands make of an imported run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden.importers.summaries import HERE

from telemetry.cli.main import main

VLLM = HERE / "vllm"
DETAILED = str(VLLM / "v0.33.0-chat-detailed.json")
WITHOUT_DETAILS = str(VLLM / "v0.33.0-chat.json")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no sentence wrap, and put runs into a folder of their own."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a command prints that ends well."""
    assert main(words) == 0
    return capsys.readouterr().out


def test_the_directory_is_the_only_line_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts read one line per file; people read the rest on stderr."""
    assert main(["import", DETAILED, WITHOUT_DETAILS, "--name", "llm"]) == 0
    out, err = capsys.readouterr()
    assert [Path(line).name.partition("-")[0] for line in out.splitlines()] == ["llm", "llm"]
    assert "telemetry: complete: llm, " in err
    assert "telemetry: unknown: single requests: the file was made without --save-detailed" in err


def test_a_report_has_stated_figures_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """The short report counts those that are the same; the full one lists all."""
    printed(capsys, "import", DETAILED)
    short, full = printed(capsys, "report"), printed(capsys, "report", "--full")
    assert "imported from vLLM, v0.33.0-chat-detailed.json" in short
    assert "38 of 38 figures that the tool states are the same recomputed" in short
    assert "unknown: how long failed requests took" in short
    assert "p99_ttft_ms" not in short
    assert "p99_ttft_ms              41.7 ms     41.7 ms  the same" in full
    assert "measured by the tool, and used for its rates here, too" in full


def test_the_page_and_the_json_have_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    """All forms of a report tell the origin."""
    printed(capsys, "import", DETAILED)
    document = json.loads(printed(capsys, "report", "--json"))
    assert document["imported"]["tool"] == "vLLM"
    assert len(document["imported"]["sha256"]) == 64
    assert "recomputed" in printed(capsys, "report", "--format", "html")


def test_gates_comparisons_and_merges_work_on_imported_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """An imported run is a run like any other."""
    for name in ("one", "two"):
        printed(capsys, "import", DETAILED, "--name", name)
    assert "pass" in printed(capsys, "gate", "one", "p50(llm.ttft) < 100ms")
    assert "llm.ttft p50" in printed(capsys, "compare", "one", "two", "--all")
    printed(capsys, "merge", "one", "two", "--name", "both", "--force")
    assert "382 of 400 completed" in printed(capsys, "report", "both")


def test_other_tools_show_an_imported_run(capsys: pytest.CaptureFixture[str]) -> None:
    """`--as` has the definitions of another tool for the same requests."""
    printed(capsys, "import", DETAILED)
    assert "Successful requests:                     191" in printed(capsys, "report", "--as", "sglang")


def test_several_tools_stand_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Stated figures, ours, and the definitions in which the tools differ."""
    k6 = str(HERE / "k6" / "full.json.gz")
    out = printed(capsys, "compare", "--tools", DETAILED, k6)
    assert out.startswith("one load by 2 tools: vLLM, k6\n")
    assert "latency p99 ms" in out
    assert "failed requests are" in out
    assert "counted, and in no duration (vLLM) · in all durations and counts (k6)" in out
    document = json.loads(printed(capsys, "compare", "--tools", DETAILED, k6, "--json"))
    assert document["tools"][0]["stated"]["latency_p99"] == pytest.approx(151.837, abs=1e-3)
    assert document["tools"][1]["stated"]["latency_p95"] == pytest.approx(52.654, abs=1e-3)  # computed as k6 does
    assert {difference["figure"] for difference in document["differences"]} >= {"requests/s", "latency p50 ms"}
    assert printed(capsys, "compare", "--tools", DETAILED, k6, "--format", "md").startswith("# one load by 2 tools")


def test_tools_need_two_results_and_a_format_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    """What can't be shown is an error that says what can."""
    assert main(["compare", "--tools", DETAILED]) == 2
    assert "--tools needs two results or more" in capsys.readouterr().err
    assert main(["compare", "--tools", DETAILED, DETAILED, "--format", "html"]) == 2
    assert "use text, json, md" in capsys.readouterr().err


def test_recorded_and_imported_runs_stand_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A run by its name, a summary without requests, and two files of one tool, whose names tell them apart."""
    printed(capsys, "import", DETAILED, "--name", "chat")
    out = printed(capsys, "compare", "--tools", "chat", WITHOUT_DETAILS)
    assert out.startswith("one load by 2 tools: vLLM chat, vLLM v0.33.0-chat.json\n")
    assert "vLLM v0.33.0-chat.json: single requests: the file was made without --save-detailed" in out
    assert "no figure differs by more than 5 %" in out


def test_an_unknown_file_names_what_was_looked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and no run is made."""
    path = tmp_path / "notes.txt"
    path.write_text("nothing to see\n")
    assert main(["import", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"{path} is not a result file that telemetry knows" in err
    assert "vLLM: the JSON of `vllm bench serve --save-result`" in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.json"], "missing.json does not exist"),
        ([DETAILED, "--as", "vlm"], "did you mean vllm?"),
        ([WITHOUT_DETAILS, "--as", "k6"], "can't be read as a result of k6"),
        ([DETAILED, "--columns", "time"], "has no name of a column"),
        ([DETAILED, "--columns", "when=a,value=b"], "--columns has no 'when'"),
    ],
)
def test_a_wrong_command_line_is_an_error(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each error says what to do."""
    assert main(["import", *words]) == 2
    assert message in capsys.readouterr().err
