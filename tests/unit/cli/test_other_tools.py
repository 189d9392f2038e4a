"""`telemetry report --as` and `--goodput`: which requests they cover, and what they say of the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from telemetry.cli.main import main
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.request_log import EndedRequests, LoggedRecords, RequestEntry
from telemetry.wire.snapshot import CounterStat

MakeRun = Callable[..., RunDirectory]
MS = 10**6
BEGIN = 5_000 * MS
STARTED_NS = 1_772_366_400_000_000_000


def entry(number: int = 0, **more: Any) -> RequestEntry:
    """Return a request of 100 ms: a first token after 20 ms, two more chunks of two tokens."""
    issued = BEGIN + number * 10 * MS
    facts: dict[str, Any] = {
        "issued_ns": issued,
        "ended_ns": issued + 100 * MS,
        "first_ns": issued + 20 * MS,
        "gaps_ns": [30 * MS, 30 * MS],
        "chunk_tokens": [2, 2],
        "input_tokens": 7,
        "output_tokens": 5,
    }
    return RequestEntry(number=number, **{**facts, **more})


def empty(number: int = 0, **more: Any) -> RequestEntry:
    """Return a request without output."""
    return entry(number, **{"first_ns": None, "gaps_ns": [], "chunk_tokens": [], "output_tokens": None, **more})


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no sentence wrap, whatever the terminal of the tests is."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run_of(make_run: MakeRun) -> Callable[..., RunDirectory]:
    """`run_of({(kind, window): [entry, …]}, missing=0)` leaves a run; `missing` requests are not in its log."""

    def make(requests: dict[tuple[str, str], list[RequestEntry]], *, missing: int = 0) -> RunDirectory:
        counters, records = [], []
        for (kind, window), entries in requests.items():
            labels = {"window": window} if window else {}
            records.append(EndedRequests(kind=kind, labels=labels, entries=entries))
            outcomes = Counter(one.outcome for one in entries)
            outcomes["completed"] += missing
            numbers = {"issued": len(entries) + missing + 1, **outcomes}
            counters += [
                CounterStat(name=f"{kind}.{word}", labels=labels, unit="requests", value=number)
                for word, number in numbers.items()
            ]
        directory = make_run("job", "aaaa1111", counters=counters)
        writer = RequestLogWriter(directory.requests)
        frame = [Raw(msgspec.msgpack.encode(record)) for record in records]
        writer.append([LoggedRecords("p", 0, STARTED_NS - BEGIN, frame)], 0)
        writer.close()
        return directory

    return make


RunOf = Callable[..., RunDirectory]
Capture = pytest.CaptureFixture[str]


def as_json(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main(["report", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_first_line_names_the_version(run_of: RunOf, capsys: Capture) -> None:
    """The first line names the version.

    The run, the report in the layout of the tool, and the unknown figures follow.
    """
    run_of({("llm", ""): [entry(0), entry(1)]})
    assert main(["report", "--as", "vllm@0.33"]) == 0
    first, second, _, third, *rest = capsys.readouterr().out.splitlines()
    assert first == "as vllm 0.33.0 bench serve, from our request log; duration is first issue to last end"
    assert second == "run job: 2 requests of llm"
    assert third == "============ Serving Benchmark Result ============"
    assert f"{'Successful requests:':<40} 2" in rest
    assert any(line.startswith("· not known: request rate") for line in rest)
    assert "· 1 request in flight at the end of the run: in no figure" in rest


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("vllm@0.1", "the definitions of vllm 0.1 are not known (known: vllm@0.33.0)"),
        ("vllm@", "the definitions of vllm without a version are not known"),
        ("vllmm", "unknown tool 'vllmm' (did you mean vllm? one of vllm, sglang, sglang-native, aiperf)"),
    ],
)
def test_an_unknown_tool_or_version_lists_the_known_ones(
    run_of: RunOf, capsys: Capture, tool: str, said: str
) -> None:
    """The exit code is that of a wrong call."""
    run_of({("llm", ""): [entry()]})
    assert main(["report", "--as", tool]) == 2
    assert said in capsys.readouterr().err


def test_a_run_without_a_log_says_what_to_do(make_run: MakeRun, capsys: Capture) -> None:
    """Both options need the request log."""
    issued = CounterStat(name="llm.issued", unit="requests", value=1)
    make_run("job", "aaaa1111", counters=[issued])
    for words in (["--as", "vllm"], ["--goodput", "ttft:5"]):
        assert main(["report", "job", *words]) == 2
        said = capsys.readouterr().err
        assert "the run has no request log" in said
        assert "run.requests(…)" in said


def test_a_log_that_is_not_whole_says_which_share_is_covered(run_of: RunOf, capsys: Capture) -> None:
    """The covered share comes before anything else, and is in the JSON.

    Goodput of the whole run can't be judged from such a log.
    """
    run_of({("llm", ""): [entry(0), entry(1)]}, missing=6)
    assert main(["report", "--as", "sglang"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "only 2 of 8 requests that ended (25 %) are covered: the request log lacks the others"
    assert as_json(capsys, "--as", "aiperf")["telemetry"]["coverage"] == first
    assert main(["report", "job", "--goodput", "ttft:5"]) == 2
    assert "the request log has 2 of 8 requests of llm" in capsys.readouterr().err


def test_options_that_do_not_fit_are_refused(run_of: RunOf, capsys: Capture) -> None:
    """Each with the option that is missing or wrong."""
    run_of({("llm", ""): [entry()]})
    for words, said in (
        (["--beside"], "--beside works only with --as"),
        (["--as", "vllm", "--format", "html"], "--as does not work with the format html"),
        (["--goodput", "speed:5"], "--goodput: 'speed' is not the key of a limit"),
        (["--goodput", "chat=ttft:5"], "no requests that --goodput chat=ttft:5ms is for"),
        (["--goodput", "ttft:5", "job"], "give RUN before --goodput"),
    ):
        assert main(["report", *words]) == 2
        assert said in capsys.readouterr().err


def test_of_several_kinds_one_is_chosen(run_of: RunOf, capsys: Capture) -> None:
    """The error names them."""
    run_of({("chat", ""): [entry()], ("embed", ""): [entry(0), entry(1)]})
    assert main(["report", "--as", "vllm"]) == 2
    assert "2 kinds of requests, and the tool knows one: chat, embed" in capsys.readouterr().err
    assert as_json(capsys, "--as", "vllm", "--requests", "embed")["completed"] == 2


def test_requests_outside_of_windows_are_a_warm_up(run_of: RunOf, capsys: Capture) -> None:
    """All windows are covered, or the one that is named; without windows all requests."""
    run_of({("llm", ""): [entry(0)], ("llm", "a"): [entry(1), entry(2)], ("llm", "b"): [entry(3)]})
    found = as_json(capsys, "--as", "vllm")
    assert (found["completed"], found["telemetry"]["requests"]) == (3, "llm, windows a, b")
    found = as_json(capsys, "--as", "vllm", "--requests", "llm{window=b}")
    assert (found["completed"], found["telemetry"]["requests"]) == (1, "llm, window b")


def test_requests_without_output_are_no_requests_of_a_model(run_of: RunOf, capsys: Capture) -> None:
    """There is nothing that the tools could measure."""
    run_of({("llm", ""): [empty(0), empty(1)]})
    assert main(["report", "--as", "vllm"]) == 2
    assert "no request of llm has any output" in capsys.readouterr().err


def test_what_the_log_lacks_is_said(run_of: RunOf, capsys: Capture) -> None:
    """Each assumption with the number of its requests."""
    run_of(
        {
            ("llm", ""): [
                entry(0, slo={"ttft": MS}),
                empty(1),
                empty(2, output_tokens=9),
                entry(3, output_tokens=None, chunk_tokens=[2, None]),
                entry(4, input_tokens=None),
                empty(5, outcome="expired"),
                entry(6, chunks_left_out=3, output_tokens=11),
            ]
        }
    )
    notes = as_json(capsys, "--as", "sglang-native")["telemetry"]["notes"]
    assert [note for note in notes if note[0] in "1234567890oit"][1:] == [
        "1 request has limits of their own: the tool has one for all",
        "1 request completed without output: a first token after 0 ms",
        "1 request expired: in no figure but attainment",
        "1 request in flight at the end of the run: in no figure",
        "1 answer came as a whole: the first token comes at the end",
        "output tokens of 1 request are not known: a chunk counts as one",
        "input tokens of 1 request are not known: they count as 0",
        "1 request has chunks of unknown tokens: one each",
        "the log lacks the early chunks of 1 very long answer",
    ]
    assert (
        "1 request completed without output: counted as failed"
        in as_json(capsys, "--as", "vllm")["telemetry"]["notes"]
    )


def test_figures_of_odd_requests(run_of: RunOf, capsys: Capture) -> None:
    """A request without output has failed for vllm; one that came as a whole has its first token at the end.

    Of a very long answer the last chunks count, and the gap before them is not known.
    """
    run_of({("llm", ""): [empty(0), empty(0, output_tokens=9), entry(0, chunks_left_out=3, output_tokens=11)]})
    found = as_json(capsys, "--as", "vllm")
    assert (found["completed"], found["failed"], found["total_output_tokens"]) == (2, 1, 20)
    assert found["mean_ttft_ms"] == (100 + 20) / 2
    assert found["mean_itl_ms"] == 30
    assert found["mean_e2el_ms"] == 100


def test_limits_of_another_tool_are_left_out(run_of: RunOf, capsys: Capture) -> None:
    """The report says which; others are judged."""
    run_of({("llm", ""): [entry(0), entry(1, first_ns=BEGIN + 90 * MS, gaps_ns=[MS, MS])]})
    found = as_json(capsys, "job", "--as", "sglang", "--goodput", "ttft:50", "gap:1")
    assert found["goodput_slos_ms"] == {"ttft": 50}
    assert found["slo_attainment"] == 0.5
    assert "the tool has no limit such as gap 1 ms: it is left out" in found["telemetry"]["notes"]
    document = as_json(capsys, "job", "--as", "sglang", "--beside", "--goodput", "ttft:50", "gap:1")
    attainment = next(one for one in document["figures"] if one["name"] == "attainment %")
    assert (attainment["ours"], attainment["theirs"]) == (0, 50)
    assert "leaves out limits that it does not know" in attainment["why"]


def test_figures_beside_ours_are_a_table(run_of: RunOf, capsys: Capture) -> None:
    """Each difference has a reason, and equal figures say so."""
    run_of({("llm", ""): [entry(0), entry(1)]})
    assert main(["report", "--as", "vllm", "--beside"]) == 0
    out = capsys.readouterr().out
    lines = {line[:19].strip(): line for line in out.splitlines()}
    assert lines["completed"].split()[1:] == ["2", "2", "the", "same"]
    assert "ends at the last chunk (ours: when the answer is complete)" in lines["latency mean ms"]
    assert lines["latency mean ms"].split()[3:5] == ["100", "80"]


def test_requests_are_judged_by_other_limits_afterwards(run_of: RunOf, capsys: Capture) -> None:
    """New limits judge the requests of every window, key by key.

    The limits of a single request stay, and failures are never good.
    """
    run_of(
        {
            ("llm", ""): [entry(0), entry(1, outcome="failed")],
            ("llm", "a"): [entry(2), entry(3, slo={"ttft": 10 * MS}), entry(4, first_ns=BEGIN + 75 * MS)],
        }
    )
    (found,) = as_json(capsys, "job", "--goodput", "ttft:20", "e2el:100ms")["requests"]
    assert found["slo"] == "ttft:20ms e2el:100ms"
    assert (found["good"], found["met"], found["attainment"]) == (2, {"ttft": 2, "e2el": 4}, 0.4)
    windows = {one["window"]: one for one in found["windows"]}
    assert (windows["a"]["good"], windows["a"]["attainment"]) == (1, 1 / 3)
    assert (windows[""]["good"], windows[""]["met"]) == (1, {"ttft": 1, "e2el": 1})
    assert main(["report", "job", "--goodput", "llm=ttft:19.9"]) == 0
    assert "within ttft 19.9 ms" in " ".join(capsys.readouterr().out.split())


def test_the_report_says_that_it_was_judged_afterwards(run_of: RunOf, capsys: Capture) -> None:
    """The report also names the limits that the run had."""
    run_of({("llm", ""): [entry(0)]})
    findings = as_json(capsys, "job", "--goodput", "ttft:20")["findings"]
    assert "llm was judged afterwards by ttft:20ms: the run had no limits" in findings


def test_a_peak_far_from_ours_is_explained(
    run_of: Callable[..., RunDirectory], capsys: pytest.CaptureFixture[str]
) -> None:
    """vLLM can count requests as overlapping that never overlap.

    The reason is the one that `--beside` gives, and it appears where no note has it.
    """
    entries = [
        entry(number, issued_ns=(at := BEGIN + number * 101 * MS), ended_ns=at + 100 * MS, first_ns=at + 20 * MS)
        for number in range(8)
    ]
    directory = run_of({("llm", ""): entries})
    because = "counts completed requests in the same second (ours: at the same time)"
    assert main(["report", str(directory.path), "--as", "vllm"]) == 0
    assert f"· peak in flight is 8, ours 1: {because}" in capsys.readouterr().out
    assert main(["report", str(directory.path), "--as", "vllm", "--beside"]) == 0
    beside = capsys.readouterr().out
    assert because in beside
    assert "ours 1:" not in beside
    assert main(["report", str(directory.path), "--as", "vllm", "--json"]) == 0
    assert f"peak in flight is 8, ours 1: {because}" in json.loads(capsys.readouterr().out)["telemetry"]["notes"]
