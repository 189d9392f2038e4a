"""Tests that the figures of load testing tools are recomputed from the runs of their samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.importers.summaries import HERE, imported

from telemetry.compat.importers.registry import read_results
from telemetry.compat.importers.result_file import ResultFile
from telemetry.errors import UsageError
from telemetry.report.other_tools import select
from telemetry.report.other_tools.answers import Answers
from telemetry.report.other_tools.http_tools import hey, oha
from telemetry.store.run_directory import RunDirectory


def _answers(sample: Path, folder: Path) -> Answers:
    run = imported(sample, folder)
    return select(run, RunDirectory.open(Path(run.snapshot.directory)), needs_output=False).answers


def test_the_figures_of_oha_are_recomputed_from_its_csv(tmp_path: Path) -> None:
    """All figures in the JSON of a load are the same, computed from the run of its CSV."""
    recomputed = oha(_answers(HERE / "oha" / "result.csv", tmp_path), {})
    stated, _ = read_results(HERE / "oha" / "result-breakdown.json")
    by_name = {figure.name: figure.value for figure in stated.stated}
    assert len(recomputed) == 3 + 27 + 6
    assert recomputed == {name: pytest.approx(by_name[name], rel=1e-12) for name in recomputed}


@pytest.mark.parametrize("count", [1, 3, 10, 100, 250])
def test_the_percentiles_of_hey_are_those_of_its_loop(count: int, tmp_path: Path) -> None:
    """With few requests, hey leaves out percentiles; with many, it takes the value above the nearest rank."""
    header, *rows = (HERE / "hey" / "flaky.csv").read_text().split("\n")
    (tmp_path / "hey").mkdir()
    path = tmp_path / "hey" / "some.csv"
    path.write_text("\n".join([header, *rows[:count]]))
    recomputed = hey(_answers(path, tmp_path / "runs"), {})
    seconds = sorted(float(row["response-time"]) for row in ResultFile(path).dict_rows())
    percentiles, expected = [10, 25, 50, 75, 90, 95, 99], {}
    for place, value in enumerate(seconds):
        if len(expected) < len(percentiles) and place * 100 // len(seconds) >= percentiles[len(expected)]:
            expected[f"{percentiles[len(expected)]}%"] = value
    assert {name: value for name, value in recomputed.items() if "%" in name} == expected
    assert recomputed["Slowest"] == seconds[-1]
    assert recomputed["Average"] == round(sum(seconds) / len(seconds), 4)


def test_the_binary_results_of_vegeta_are_refused(tmp_path: Path) -> None:
    """Only vegeta reads its own encoding, so the error names the command that converts it."""
    path = tmp_path / "results.bin"
    path.write_bytes(
        bytes.fromhex(
            "ff967f03010106526573756c7401ff8000010c010641747461636b010c000103536571010600010443"
            "6f6465010600010954696d657374616d7001ff820001074c6174656e6379010400"
        )
    )
    with pytest.raises(UsageError, match="run `vegeta encode -to json` on them first"):
        read_results(path)
