"""Result files of other tools that are cut, in several parts or too large, and reasons for what differs."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from tests.golden.importers.summaries import HERE, imported

from telemetry.compat.importers import hdrhistogram
from telemetry.compat.importers.registry import read_results
from telemetry.errors import UsageError

GATLING = (HERE / "gatling" / "3.12.log").read_bytes()


@pytest.mark.parametrize("bytes_less", [1, 2, 20])
def test_a_text_log_of_gatling_that_is_cut_says_so(bytes_less: int, tmp_path: Path) -> None:
    """The last line is left out: the times in it may lack digits."""
    whole, cut = tmp_path / "whole.log", tmp_path / "cut.log"
    whole.write_bytes(GATLING[: GATLING.rindex(b"\n", 0, -1) + 1])
    cut.write_bytes(GATLING[:-bytes_less])
    (before, _), (results, _) = read_results(whole), read_results(cut)
    assert results.is_interrupted
    assert results.unknown[-1] == "what came after the last whole record: the file ends within one"
    assert results.time_range() == before.time_range()
    assert not before.is_interrupted


@pytest.mark.parametrize("name", ["3.12.log", "3.13.log"])
def test_a_log_of_gatling_that_is_cut_in_its_header_is_refused(name: str, tmp_path: Path) -> None:
    """A log without the record of the run has nothing to show."""
    path = tmp_path / name
    path.write_bytes((HERE / "gatling" / name).read_bytes()[:20])
    with pytest.raises(UsageError, match="the file ends within a record"):
        read_results(path)


def test_the_digest_of_a_test_of_locust_covers_all_of_its_files(tmp_path: Path) -> None:
    """It is the same whichever file is named, and another one if any of the files is changed."""
    files = [Path(shutil.copy(path, tmp_path)) for path in sorted((HERE / "locust" / "csv-v2470").glob("*.csv"))]
    lines = "".join(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files)
    stats, history = (next(tmp_path.glob(f"*{end}")) for end in ("_stats.csv", "_stats_history.csv"))
    for path in (stats, history):
        _, origin = read_results(path)
        assert origin.sha256 == hashlib.sha256(lines.encode()).hexdigest()
        assert origin.size == sum(path.stat().st_size for path in files)
    with open(history, "a") as file:
        file.write("\n")
    assert read_results(stats)[1].sha256 != origin.sha256


def test_a_distribution_of_too_many_values_states_its_percentiles(tmp_path: Path) -> None:
    """The figures of the file are imported, and one sentence says why the values are not."""
    path = tmp_path / "large.hgrm"
    text = (HERE / "hdrhistogram" / "java-csv.hgrm").read_text()
    path.write_text(text.replace(",300,", ",5000001,"))
    results, _ = read_results(path)
    stated = {figure.name: figure.value for figure in results.stated}
    assert not results.instruments
    assert (stated["value 50%"], stated["value 100%"]) == (7.651, 60.895)
    assert "the values of value: it has more than the 5,000,000 that can be read" in results.unknown


def test_a_log_of_too_many_values_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log has no figures of all its intervals that could be imported instead."""
    monkeypatch.setattr(hdrhistogram, "_MOST_VALUES", 200)
    path = Path(shutil.copy(HERE / "hdrhistogram" / "java-tagged.hlog", tmp_path))
    with pytest.raises(UsageError, match="more than 200 values of value: split the log, and merge the runs"):
        read_results(path)


def test_names_in_quotes_are_those_of_the_instruments(tmp_path: Path) -> None:
    """Prometheus 3 quotes names with other characters than letters, digits, `_` and `:`."""
    path = tmp_path / "page.txt"
    path.write_text('# TYPE "my app.requests" counter\n{"my app.requests", "http.method"="GET"} 7\n')
    [requests] = read_results(path)[0].instruments.values()
    assert (requests.kind, requests.name, requests.labels) == ("counter", "my app.requests", {"http.method": "GET"})


def test_limits_that_no_run_can_have_are_unknown(tmp_path: Path) -> None:
    """Goodput is not recomputed with some of its limits only."""
    folder = Path(shutil.copytree(HERE / "aiperf" / "v0.13.0-server-tokens", tmp_path / "aiperf"))
    path = folder / "profile_export_aiperf.json.gz"
    document = json.loads(gzip.decompress(path.read_bytes()))
    assert read_results(folder)[0].requests["llm"].slo == "ttft:30ms"
    document["input_config"]["slos"]["output_sequence_length"] = 20
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    results, _ = read_results(folder)
    assert results.requests["llm"].slo == ""
    assert "limits for a request: 'output_sequence_length' is not the key of a limit" in results.unknown


@pytest.mark.parametrize("sample", ["k6/summary-export.json", "sglang/v0.5.23-oai-chat.jsonl"])
def test_a_file_without_requests_says_so_of_each_figure(sample: str, tmp_path: Path) -> None:
    """Reasons that are about definitions would mislead: there is nothing to compute from."""
    origin = imported(HERE / sample, tmp_path).imported
    assert origin is not None
    assert {figure.reason for figure in origin.stated} == {"the file has no requests"}


def test_a_micro_benchmark_without_values_says_so_of_each_figure(tmp_path: Path) -> None:
    """Aggregates alone can't be computed again."""
    origin = imported(HERE / "google-benchmark" / "1.9.1-aggonly.json", tmp_path).imported
    assert origin is not None
    assert {figure.reason for figure in origin.stated} == {"the file has no single values"}


@pytest.mark.parametrize(
    ("sample", "names"),
    [
        (
            "sglang/v0.5.23-oai-chat-details.jsonl",
            ["request_goodput", "slo_attainment", "slo_attainment_by_metric tpot"],
        ),
        ("aiperf/v0.13.0-server-tokens", ["goodput avg", "good_request_count avg", "good_request_fraction avg"]),
    ],
)
def test_goodput_is_recomputed_with_the_limits_of_the_file(sample: str, names: list[str], tmp_path: Path) -> None:
    """The limits of the file become those of the run."""
    origin = imported(HERE / sample, tmp_path).imported
    assert origin is not None
    by_name = {figure.name: figure for figure in origin.stated}
    assert all(by_name[name].is_same for name in names)


def test_a_rate_is_not_compared_with_the_time_that_follows_from_it(tmp_path: Path) -> None:
    """It would be the same whatever the requests are."""
    origin = imported(HERE / "aiperf" / "v0.13.0-full110", tmp_path).imported
    assert origin is not None
    by_name = {figure.name: figure for figure in origin.stated}
    rate = by_name["request_throughput avg"]
    assert (rate.recomputed, "its nanoseconds follow from this" in rate.reason) == (None, True)
    assert by_name["output_token_throughput avg"].is_same


def test_the_figures_of_wrk2_that_differ_have_a_reason(tmp_path: Path) -> None:
    """Percentiles, the largest value and the mean come from buckets that the rows of the file don't have."""
    origin = imported(HERE / "hdrhistogram" / "wrk2.txt", tmp_path).imported
    assert origin is not None
    by_name = {figure.name: figure for figure in origin.stated}
    assert by_name["latency 99.000%"].is_same
    assert by_name["latency Total count"].is_same
    assert all(figure.is_same or figure.reason for figure in origin.stated)
