"""Tests that written reports match the schema."""

from __future__ import annotations

import json
import math

import jsonschema
import pytest
from tests.golden.report.renderings import requests_report, stored_report

from telemetry.report.json import json_schema, render_json
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot, SeriesStat

REPORTS = {
    "everything": stored_report(),
    "requests": requests_report(),
    "nothing": Report(snapshot=MetricsSnapshot(run_id="r", name="n"), source="status"),
    "not finite": Report(
        snapshot=MetricsSnapshot(
            run_id="r",
            name="n",
            elapsed_s=math.inf,
            counters=[CounterStat(name="c", value=math.nan)],
            series=[SeriesStat(name="s", percentiles={"50": math.inf})],
        ),
        source="journal",
        step_s=math.nan,
        gates=[GateResult(expression="e", outcome="pass", reason="r", value=math.inf)],
    ),
}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_valid(name: str, validator: jsonschema.Draft202012Validator) -> None:
    """Reports are valid with everything in them, with nothing, and with numbers that JSON can't hold."""
    document = json.loads(render_json(REPORTS[name]), parse_constant=pytest.fail)
    assert [error.message for error in validator.iter_errors(document)] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": None}, "not of type 'string'"),
        ({"series": [{"name": "s"}]}, "required property"),
        ({"completeness": "perfect"}, "not one of"),
        ({"elapsed_s": "long"}, "not of type"),
        ({"schema_version": 2}, "greater than the maximum"),
    ],
)
def test_what_is_wrong_is_refused(
    change: dict[str, object], said: str, validator: jsonschema.Draft202012Validator
) -> None:
    """A schema that takes everything would say nothing."""
    document = json.loads(render_json(stored_report())) | change
    assert any(said in error.message for error in validator.iter_errors(document))


def test_a_name_that_is_left_out_is_refused(validator: jsonschema.Draft202012Validator) -> None:
    """A report without one of the names is invalid, so that its readers find every name."""
    document = json.loads(render_json(stored_report()))
    del document["time_range"]
    assert not validator.is_valid(document)


def test_fields_have_the_words_of_the_source() -> None:
    """Units and meanings travel with the schema."""
    parts = json_schema()["$defs"]
    assert parts["CounterStat"]["properties"]["rate"]["description"] == "Per second, over the window."
    assert parts["TimeRange"]["description"].endswith("seconds since the run's start.")
