"""Spans of a run in a real receiver of OTLP: a server of MLflow, read back with its own client."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from tests.backends.reading_mlflow import ask
from tests.mlflow_server import mlflow_server
from tests.process.conftest import Ground

pytestmark = pytest.mark.slow
STEPS: Final = 100
IDS: Final = ("span_id", "parent_id")
KERNEL: Final = 'größe "q" 日本'
PROGRAM: Final = f"""
import telemetry
with telemetry.start("job") as run, run.span("train", track="loop", labels={{"epoch": "1"}}):
    for step in range({STEPS}):
        with run.span("step", track="loop", labels={{"step": str(step)}}):
            with run.span("forward", track="gpu", labels={{"kernel": {KERNEL!r}, "step": str(step)}}):
                pass
"""
HEADER: Final = "x-mlflow-experiment-id"
_CLIENT: Final = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
traces = client.search_traces(locations=[sys.argv[2]])
print(json.dumps([
    {
        "id": trace.info.trace_id,
        "state": trace.info.state.value,
        "tags": trace.info.tags,
        "spans": [
            {
                "name": span.name,
                "id": span.span_id,
                "parent": span.parent_id,
                "trace": span.trace_id,
                "start_ns": span.start_time_ns,
                "end_ns": span.end_time_ns,
                "attributes": span.attributes,
            }
            for span in trace.data.spans
        ],
    }
    for trace in traces
]))
"""
"""MLflow's client in a process of its own: it sets up a tracer for the whole process."""


class Recorded(NamedTuple):
    """A span as the run directory has it."""

    name: str
    track: str
    start_ns: int
    end_ns: int
    labels: tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server on a database."""
    with mlflow_server(tmp_path_factory) as address:
        yield address


def run(ground: Ground, server: str, headers: str) -> str:
    """Run the program; all that the command says."""
    code, out, err = ground.run(
        *("run", "--dir", "runs", "--name", "spans", "--no-collect"),
        *("--to", f"otlp:endpoint={server},metrics=false"),
        *("--", sys.executable, ground.program("job.py", PROGRAM)),
        environ={"OTEL_EXPORTER_OTLP_HEADERS": headers},
    )
    assert code == 0, err
    return out + err


def backend(ground: Ground) -> dict[str, Any]:
    """Return what the writer says about itself after the run."""
    code, out, err = ground.run("status", "latest", "--dir", "runs", "--json")
    assert code == 0, err
    (stat,) = json.loads(out)["backends"]
    return dict(stat)


def recorded(ground: Ground) -> list[Recorded]:
    lines = (ground.folder / "runs" / "latest" / "records" / "records.jsonl").read_text().splitlines()
    spans = [record for record in map(json.loads, lines) if record.get("type") == "span"]
    return sorted(
        Recorded(
            span["name"],
            span["track"],
            span["wall_ns"],
            span["wall_ns"] + span["end_ns"] - span["start_ns"],
            tuple(sorted((key, label) for key, label in span["labels"].items() if key not in IDS)),
        )
        for span in spans
    )


def traces(ground: Ground, server: str, experiment: str) -> list[dict[str, Any]]:
    client = ground.popen(sys.executable, "-c", _CLIENT, server, experiment)
    out, err = client.communicate(timeout=100)
    assert client.returncode == 0, err
    return list(json.loads(out))


@pytest.mark.timeout(300)
def test_every_span_is_read_back_from_mlflow(ground: Ground, server: str) -> None:
    """Every span is in MLflow once, in one trace, nested as in the program.

    Name, track and labels are the recorded ones, and times agree to the nanosecond.
    """
    experiment = ask(server, "experiments/create", {"name": "spans"})["experiment_id"]
    printed = run(ground, server, f"{HEADER}={experiment}")
    assert "rejects" not in printed
    stat = backend(ground)
    sent = recorded(ground)
    assert len(sent) == 1 + 2 * STEPS
    assert {one.track for one in sent} == {"loop", "gpu"}
    assert (stat["state"], stat["written"], stat["dropped"], stat["queued"]) == ("done", len(sent), {}, 0)

    (trace,) = traces(ground, server, experiment)
    run_id = ground.final()["run_id"]
    assert trace["state"] == "OK"
    assert trace["tags"]["telemetry.run.id"] == run_id
    assert trace["tags"]["service.name"] == "spans"
    (root,) = [span for span in trace["spans"] if span["parent"] is None]
    assert root["name"] == "spans"
    spans = [span for span in trace["spans"] if span is not root]
    by_id = {span["id"]: span for span in trace["spans"]}
    above = Counter((span["name"], by_id[span["parent"]]["name"]) for span in spans)
    assert above == {("train", "spans"): 1, ("step", "train"): STEPS, ("forward", "step"): STEPS}
    for span in spans:
        outer = by_id[span["parent"]]
        assert outer["start_ns"] <= span["start_ns"] <= span["end_ns"] <= outer["end_ns"]
    assert {span["trace"] for span in trace["spans"]} == {trace["id"]}
    assert len({span["id"] for span in trace["spans"]}) == len(sent) + 1
    assert root["start_ns"] <= min(one.start_ns for one in sent)
    assert root["end_ns"] == max(one.end_ns for one in sent)
    found = []
    for span in spans:
        labels = dict(span["attributes"])
        assert labels.pop("mlflow.traceRequestId") == trace["id"]
        assert len(labels.pop("telemetry.producer")) == 16
        track = labels.pop("telemetry.track")
        found.append(Recorded(span["name"], track, span["start_ns"], span["end_ns"], tuple(sorted(labels.items()))))
    assert sorted(found) == sent
    assert {dict(one.labels)["kernel"] for one in found if one.name == "forward"} == {KERNEL}


@pytest.mark.parametrize(
    ("headers", "reason", "words"),
    [("", "http_422", HEADER), (f"{HEADER}=987654321", "http_404", "No Experiment with id=987654321")],
    ids=["no header", "no such experiment"],
)
def test_what_mlflow_rejects_is_said_and_counted(
    ground: Ground, server: str, headers: str, reason: str, words: str
) -> None:
    """The output has the server's answer when MLflow rejects spans, so no span is lost in silence.

    Rejected spans are counted by this answer.
    """
    printed = run(ground, server, headers)
    assert f"it rejects traces: HTTP {reason.removeprefix('http_')}" in printed
    assert words in printed
    stat = backend(ground)
    assert (stat["written"], stat["dropped"]) == (0, {reason: 1 + 2 * STEPS})
