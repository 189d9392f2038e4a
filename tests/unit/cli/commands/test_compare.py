"""`telemetry compare` over runs that have ended."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.commands.compare import fraction
from telemetry.cli.main import main
from telemetry.store.calibrations import Calibration, MetricNoise, write_calibration
from telemetry.store.final_snapshot import write_final
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.wire.snapshot import CommandFacts, MetricsSnapshot, SeriesStat

STARTED_NS = 1_772_366_400_000_000_000
NOISY = (10.0, 10.4, 9.7, 10.1, 9.9, 10.3)
Leave = Callable[..., RunDirectory]


@pytest.fixture
def leave(root: Path) -> Leave:
    """`leave(name, p50, at)` leaves a run that started `at` seconds after midnight."""

    def make(name: str, p50: float, at: int, completeness: str = "complete") -> RunDirectory:
        run_id = f"{name[0]}{at:07d}"
        directory = RunDirectory.create(root, name, run_id, STARTED_NS + at * 10**9)
        series = SeriesStat(name="latency", unit="ms", count=50, min=1, max=99, mean=p50, percentiles={"50": p50})
        snapshot = MetricsSnapshot(
            run_id=run_id,
            name=name,
            state="COMPLETE",
            completeness=completeness,  # type: ignore[arg-type]
            started_ns=STARTED_NS + at * 10**9,
            elapsed_s=10.0,
            series=[series],
            command=CommandFacts(argv=["x"], exit_code=0, wall_s=1.0, cpu_user_s=1.0),
            directory=str(directory.path),
        )
        write_final(snapshot, [directory.final])
        directory.write_manifest(Manifest(run_id=run_id, name=name, cwd="/w"))
        return directory

    return make


@pytest.fixture
def both(leave: Leave) -> None:
    """Six runs a side, made by turns; the new ones take a tenth longer."""
    for number, p50 in enumerate(NOISY):
        leave("old", p50, 2 * number)
        leave("new", p50 * 1.1 * (1 + 0.001 * (number % 2)), 2 * number + 1)


@pytest.mark.usefixtures("both")
def test_names_mean_all_their_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Oldest first; the newest few with `--last`."""
    assert main(["compare", "old", "--vs", "new", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["run_id"] for run in document["before"]] == [f"o{2 * number:07d}" for number in range(6)]
    assert [run["name"] for run in document["after"]] == ["new"] * 6
    assert document["paired"] is True
    assert {m["statistic"] for m in document["metrics"] if m["verdict"] == "worse"} == {"p50", "mean"}
    assert main(["compare", "old", "--vs", "new", "--json", "--last", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["run_id"] for run in document["before"]] == ["o0000008", "o0000010"]


@pytest.mark.usefixtures("both")
def test_a_worse_figure_fails_only_if_that_is_asked_for() -> None:
    """99 for worse, 3 for what can't be told, 0 for better and for no difference."""
    assert main(["compare", "old", "--vs", "new"]) == 0
    assert main(["compare", "old", "--vs", "new", "--fail-on", "worse"]) == 99
    assert main(["compare", "new", "--vs", "old", "--fail-on", "worse"]) == 0
    assert main(["compare", "old", "--vs", "new", "--fail-on", "worse", "--last", "1"]) == 3
    assert main(["compare", "old", "--vs", "new", "--fail-on", "worse", "--metric", "command"]) == 0
    assert main(["compare", "old", "--vs", "new", "--fail-on", "worse", "--min-effect", "20%"]) == 0
    assert main(["compare", "old", "--vs", "new", "--fail-on", "worse", "--higher-is-better", "latency"]) == 0
    assert main(["compare", "new", "--vs", "old", "--fail-on", "worse", "--higher-is-better", "latency"]) == 99


@pytest.mark.usefixtures("both")
def test_a_metric_that_nothing_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage, whatever else was asked for: nothing is compared and nothing written."""
    words = ["compare", "old", "--vs", "new", "--metric", "latency:p50"]
    assert main([*words, "--metric", "latncy:mean", "-o", "sums/c.md"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "the runs have no figure 'latncy:mean' (did you mean latency:mean?)" in said.err
    assert not Path("sums").exists()


def test_runs_that_are_not_complete_can_be_allowed(leave: Leave) -> None:
    """Inconclusive unless they are."""
    for number, p50 in enumerate(NOISY):
        leave("old", p50, 2 * number)
        leave("new", p50, 2 * number + 1, completeness="lossy" if number == 3 else "complete")
    words = ["compare", "old", "--vs", "new", "--fail-on", "worse"]
    assert main(words) == 3
    assert main([*words, "--allow-incomplete"]) == 0


def test_runs_by_id_and_directory(leave: Leave, capsys: pytest.CaptureFixture[str]) -> None:
    """One each, and each only once."""
    one, two, three = (leave("old", 10.0, at) for at in range(3))
    assert (
        main(
            [
                "compare",
                one.run_id,
                str(two.path),
                str(two.path / "final_snapshot.json"),
                "--vs",
                "latest",
                "--json",
            ]
        )
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert [run["run_id"] for run in document["before"]] == [one.run_id, two.run_id]
    assert [run["run_id"] for run in document["after"]] == [three.run_id]
    assert main(["compare", "old", "--vs", one.run_id]) == 2
    assert f"run {one.run_id} is given twice" in capsys.readouterr().err
    assert main(["compare", "old", "--vs", "odd"]) == 1
    assert "did you mean old" in capsys.readouterr().err
    assert main(["compare", "old", "--vs", "latest", "--last", "0"]) == 2


@pytest.mark.usefixtures("both")
def test_forms_go_where_they_are_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """The suffix of -o chooses the form; a place that can't be written is one line."""
    for name, start in (
        ("c.md", "**worse: "),
        ("c.json", "{"),
        ("c.html", "<!DOCTYPE html>"),
        ("c.txt", "worse: "),
    ):
        assert main(["compare", "old", "--vs", "new", "-o", name]) == 0
        assert Path(name).read_text().startswith(start)
    assert capsys.readouterr().out == ""
    assert main(["compare", "old", "--vs", "new", "-o", "both.md", "-o", "both.html"]) == 0
    assert (Path("both.md").read_text(), Path("both.html").read_text()) == tuple(
        Path(name).read_text() for name in ("c.md", "c.html")
    )
    assert main(["compare", "old", "--vs", "new", "--json", "--format", "md", "-o", "sums/"]) == 0
    assert sorted(path.name for path in Path("sums").iterdir()) == ["comparison.json", "comparison.md"]
    assert main(["compare", "old", "--vs", "new", "-o", "c.csv"]) == 2
    assert "the suffix .csv of c.csv does not select a format" in capsys.readouterr().err
    assert main(["compare", "old", "--vs", "new", "-o", "missing/c.md"]) == 1
    assert "can't write missing/c.md" in capsys.readouterr().err


@pytest.mark.usefixtures("both")
def test_a_calibration_is_that_of_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The calibration of the same command is used, not one with the run's name.

    A chosen one may be of another command, which is then reported.
    """
    write_calibration(root, Calibration(name="new", argv=["y"], cwd="/w"))
    assert main(["compare", "old", "--vs", "new", "--last", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "calibration: none was made of these commands" in said
    assert "measure it with `telemetry calibrate`" in said
    noise = MetricNoise(of="series", statistic="p50", name="latency", values=[0.99, 1, 1.01] * 3)
    write_calibration(root, Calibration(name="bench", argv=["x"], cwd="/w", runs=9, metrics=[noise]))
    assert main(["compare", "old", "--vs", "new", "--last", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "calibration: bench, the noise between 9 runs of the command of both sides: x" in said
    assert "`telemetry calibrate`" not in said
    assert "beyond -2.78 % … +2.86 %" in said
    assert main(["compare", "old", "--vs", "new", "--last", "1", "--calibration", "new"]) == 0
    assert "calibration: new, the noise between 0 runs of another command: y" in capsys.readouterr().out
    assert main(["compare", "old", "--vs", "new", "--calibration", "nothing"]) == 1
    assert "no calibration 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("2 %", 0.02), ("0.5%", 0.005), ("0.02", 0.02), ("0", 0)]
)
def test_shares_are_percent_or_fractions(text: str, share: float) -> None:
    """A share is a percentage or a fraction, as people write them."""
    assert fraction(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "%", "two", "-1%", "1e3", "nan"])
def test_what_is_no_share_is_said(text: str) -> None:
    """A wrong share is an error of argparse, with exit code 2."""
    with pytest.raises(ArgumentTypeError, match="is not a valid share"):
        fraction(text)


@pytest.mark.usefixtures("both")
def test_two_runs_need_no_vs(capsys: pytest.CaptureFixture[str]) -> None:
    """Two names are two sides, in this order."""
    assert main(["compare", "old", "--vs", "new", "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert main(["compare", "old", "new", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == given


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["old"], "a comparison needs two sides (telemetry compare old --vs OTHER)"),
        (
            ["old", "new", "the rest"],
            "which of the 3 runs are those after the change? (put them after --vs, such as: "
            "telemetry compare old --vs new 'the rest'; for curves of all on one page: "
            "telemetry ls old new 'the rest' --html runs.html)",
        ),
    ],
)
def test_what_to_type_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error for an unclear pair of runs shows what to type."""
    assert main(["compare", *words]) == 2
    assert capsys.readouterr().err == f"telemetry: {said}\n"
