"""Every benchmark runs once, too small for figures: what is checked is that it measures, and what it counts."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GROUPS = (
    "emit",
    "perturbation",
    "ingest",
    "requests",
    "steps",
    "journal",
    "snapshot",
    "end_to_end",
    "final_file",
    "memory",
    "imports",
    "viewer",
)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "TELEMETRY_ENDPOINT"}


def run_tiny(group: str, out: Path) -> dict[str, Any]:
    """Run one group and return its measurements.

    Its exit code is 1 if a figure was missed, which means nothing at this size.
    """
    command = [sys.executable, "-m", "benchmarks.run", "--tiny", "--only", group, "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(out.read_bytes())[group]
    return found


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`benchmarks.harness`, which is not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import harness

    return harness


@pytest.fixture
def table(harness: Any) -> Any:
    from benchmarks import table

    return table


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_measures(group: str, tmp_path: Path) -> None:
    """Figures are finite numbers with a unit, ratios are positive, and the medians lie between the extremes."""
    found = run_tiny(group, tmp_path / "out.json")
    assert found["figures"]
    for figure in found["figures"]:
        assert math.isfinite(figure["value"]), figure
        assert figure["unit"]
        assert figure["met"] in (None, True, False)
        assert figure["ratio"] is None or figure["ratio"] > 0
    for measurement in found["measurements"].values():
        for value in measurement.values():
            if isinstance(value, dict):
                assert value["min"] <= value["median"] <= value["max"]


def test_what_was_recorded_end_to_end_was_applied(tmp_path: Path) -> None:
    """A load far below the rate of the flood loses nothing. A flood that blocks loses nothing at all."""
    found = run_tiny("end_to_end", tmp_path / "out.json")["measurements"]
    for name in ("paced 10k", "flood"):
        assert found[name]["recorded"]["median"] == found[name]["applied"]["median"] > 0
        assert found[name]["unaccounted"]["max"] == 0


def test_the_users_bench_measures() -> None:
    """`telemetry bench` prints one JSON object whose counts add up."""
    command = [sys.executable, "-m", "telemetry", "bench", "--seconds", "0.2", "--rate", "10000", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=True
    )
    found = json.loads(done.stdout)
    assert 0 < found["record_ns"] < 1e6
    assert found["longest_call_ns"] > 0
    assert found["lost"] == found["flood_lost"] == 0
    assert 0 < found["recorded"] <= 2_100  # 0.2 s at that rate, and a burst more
    assert found["flood_events_per_s"] > 0
    assert found["aggregator_rss_bytes"] > 0


def test_the_soak_measures(tmp_path: Path) -> None:
    """All events of all kinds are in the result; the figure means nothing at this size."""
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.soak", "--events", "300000", "--rate", "0", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(out.read_bytes())["measurements"]
    assert found["run"]["applied"] == found["run"]["events"] == 300_000
    assert found["rss_bytes_by_applied"]["300000"] > 0


def test_a_kill_loses_nothing() -> None:
    """The benchmark's own sums add up, with a restart in between."""
    command = [sys.executable, "-m", "benchmarks.kills", "--kills", "1", "--rate", "20000", "--seed", "1"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["missing"], found["faults"]) == (1, 0, [])
    assert found["sent"] == found["applied"] > 0


def test_workers_that_outlive_their_command_are_compared() -> None:
    """A line for each round; nothing is called complete that is not."""
    command = [sys.executable, "-m", "benchmarks.outlive", "--rounds", "2", "--grace", "1", "--seed", "1"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("2 rounds: ")


def test_an_unknown_group_is_refused() -> None:
    """The message lists the groups there are."""
    command = [sys.executable, "-m", "benchmarks.run", "--only", "emti"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "emti" in done.stderr
    assert "perturbation" in done.stderr


def test_ratios_are_of_paired_rounds(harness: Any) -> None:
    """A machine that becomes ten times slower half way changes neither ratio nor winner."""
    ours = [{"ns": 10.0}, {"ns": 11.0}, {"ns": 100.0}]
    theirs = [{"ns": 20.0}, {"ns": 22.0}, {"ns": 200.0}]
    assert harness.paired_ratio(ours, theirs, "ns") == pytest.approx(0.5)
    assert harness.best({"ours": ours, "theirs": theirs}, "ns") == "ours"


def test_every_alternative_goes_first_equally_often(harness: Any) -> None:
    """The start of a round moves on by one each time."""
    assert [harness.rotated("abc", turn)[0] for turn in range(6)] == list("abcabc")
    assert harness.rotated("abc", 1) == ["b", "c", "a"]


def test_a_figure_knows_whether_it_holds(harness: Any) -> None:
    """Below a limit where less is better, above it where more is; without a limit there is nothing to hold."""
    assert harness.Figure("x", 1.0, "ns", 2.0).met is True
    assert harness.Figure("x", 3.0, "ns", 2.0).met is False
    assert harness.Figure("x", 3.0, "events/s", 2.0, "higher").met is True
    assert harness.Figure("x", 3.0, "ns").met is None


def test_a_broken_alternative_says_why(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback of the other process is in the error."""
    with pytest.raises(harness.WorkerError, match="KeyError"):
        harness.Worker("benchmarks.peers", "no such peer")
    with (
        harness.Worker("benchmarks.peers", "list.append") as worker,
        pytest.raises(harness.WorkerError, match="TypeError"),
    ):
        worker.measure(nonsense=1)


def test_the_table_is_rewritten_between_its_markers(
    harness: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ratio first, a missed figure in bold, the text around untouched; a second run replaces the first."""
    document = tmp_path / "PERFORMANCE.md"
    document.write_text(f"before\n{table._BEGIN}\nold\n{table._END}\nafter\n")
    monkeypatch.setattr(table, "DOCUMENT", document)
    met = harness.Figure("one thing", 1234.5, "ns", 2000.0, peer="somebody", peer_value=2469.0, ratio=0.5)
    missed = harness.Figure("another", 3.0, "s", 2.0)
    groups = {"emit": table.entry(harness.Outcome([met, missed], {}), "full", 1.0)}
    for _ in range(2):
        table.rewrite(table.save(tmp_path / "results.json", groups), ["emit", "journal"])
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert text.count("| **× 0.5** | one thing | ≤ 2,000 ns | 1,234 ns | somebody: 2,469 ns | yes |") == 1
    assert text.count("|  | another | ≤ 2 s | 3 s |  | **no** |") == 1


def test_groups_that_did_not_run_keep_their_figures(harness: Any, table: Any, tmp_path: Path) -> None:
    """A run of one group adds to the day's file."""
    path = tmp_path / "results.json"
    entry = table.entry(harness.Outcome([], {}), "full", 1.0)
    table.save(path, {"emit": entry})
    assert set(table.save(path, {"journal": entry})["groups"]) == {"emit", "journal"}


def test_the_document_has_its_markers(table: Any) -> None:
    """The document has the markers of the table; without them a full run would measure for nothing."""
    text = table.DOCUMENT.read_text()
    assert text.index(table._BEGIN) < text.index(table._END)
