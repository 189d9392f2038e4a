"""Parts of runs as they are asked for on a command line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from tests.unit.history.runs import Making

from telemetry.cli import find_run
from telemetry.cli.main import main
from telemetry.cli.time_range_options import add_part_arguments, choice_of, report_of, step_of
from telemetry.errors import UsageError
from telemetry.history import TimeRangeChoice
from telemetry.wire.events import Define
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

DEFINITIONS = (Define(0, "latency", "series", "ms"), Define(1, "requests", "counter"))


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_part_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def run(root: Path) -> Path:
    """Forty seconds of one run, in `runs`."""
    rows = [[(0, 1.0 + second)] * 10 + [(1, 2.0)] for second in range(40)]
    Making(root, DEFINITIONS).write(rows)
    return root


def test_flags_become_a_choice() -> None:
    """Times from either end; a negative one is a value, not a flag."""
    assert choice_of(parsed()).whole
    assert choice_of(parsed("--from", "30s", "--to", "5m")) == TimeRangeChoice(from_s=30.0, to_s=300.0)
    assert choice_of(parsed("--from", "-1m", "--to=-10s")) == TimeRangeChoice(from_s=-60.0, to_s=-10.0)
    assert choice_of(parsed("--steady", "--to", "9")) == TimeRangeChoice(steady=True, to_s=9.0)
    assert choice_of(parsed("--trim-warmup")) == TimeRangeChoice(trim_warmup=True)
    assert step_of(parsed()) is None
    assert step_of(parsed("--every", "1m")) == 60.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "soon"), "--from: 'soon' is not a time"),
        (("--to", "10 parsecs"), "--to: '10 parsecs' is not a time"),
        (("--every", "often"), "--every: 'often' is not a time"),
        (("--every", "0"), "--every 0 is not a step above 0 s"),
        (("--every=-5s",), "--every -5s is not a step above 0 s"),
    ],
)
def test_wrong_values_name_their_flag(words: tuple[str, ...], said: str) -> None:
    """The error names the flag that has a wrong value, and says how a time is written."""
    args = parsed(*words)
    with pytest.raises(UsageError) as caught:
        step_of(args) if args.every else choice_of(args)
    assert caught.value.message == said
    assert "10s" in caught.value.hint


def test_a_report_of_a_run_that_has_ended(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report of an ended run has bounds, figures over time and findings without further options."""
    assert main(["report", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["time_range"] is None
    assert document["bounds"][0]["percentiles"]["50"]["low"] < document["bounds"][0]["percentiles"]["50"]["high"]
    assert len(document["over_time"][0]["points"]) == 40
    assert document["step_s"] == 1.0
    assert document["findings"] == [
        "p99.9 of latency has no upper bound yet (95 % confidence): needs 3,688 samples, has 400"
    ]


def test_a_report_of_a_part(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers are those of the part, in steps of the length that was asked for."""
    assert main(["report", "--json", "--from", "10s", "--to", "-10s", "--every", "5s"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["time_range"]["start_s"], document["time_range"]["end_s"]) == (10.0, 30.0)
    latency = document["series"][0]
    assert (latency["count"], latency["min"], latency["max"], latency["exact"]) == (200, 11, 30, False)
    assert document["counters"][0]["value"] == 40
    assert [point["count"] for point in document["over_time"][0]["points"]] == [50] * 4
    assert "cover the chosen time range, 10.0 s to 30.0 s" in document["findings"][0]


def test_mistakes_are_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and one line with what would do."""
    assert main(["report", "--from", "50s"]) == 2
    assert "the time range from 50.0 s to 40.0 s of the run is empty" in capsys.readouterr().err
    assert main(["report", "--every", "soon"]) == 2
    assert "--every: 'soon' is not a time" in capsys.readouterr().err
    assert main(["report", "--steady", "--trim-warmup"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_no_history_no_parts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result that was copied is reported as a whole, and says why it can't be as a part."""
    alone = run.parent / "baseline.json"
    alone.write_bytes((run / "latest" / "final_snapshot.json").read_bytes())
    assert main(["report", str(alone), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bounds"]
    assert main(["report", str(alone), "--steady"]) == 1
    assert "a result without its run directory has no history" in capsys.readouterr().err


def test_a_run_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of a live run is that of its aggregator. Parts of the run can't be reported."""
    live = Report(snapshot=MetricsSnapshot(run_id="r", name="n", state="LIVE"), source="status")
    monkeypatch.setattr(find_run, "report_of", lambda target: live)
    target = find_run.RunTarget("job", Path("runs"), endpoint="ipc:///nowhere")
    assert report_of(target, TimeRangeChoice(), None) is live
    for choice, step_s in ((TimeRangeChoice(from_s=1.0), None), (TimeRangeChoice(), 5.0)):
        with pytest.raises(UsageError, match="the run is still going"):
            report_of(target, choice, step_s)
