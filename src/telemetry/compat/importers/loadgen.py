"""Results of MLPerf LoadGen: the folder of its logs, best with `mlperf_log_trace.json`, which has each sample.

A sample lasts from its scheduled time to its completion, so its latency has the delay of the generator. Times are
nanoseconds since the beginning of the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from telemetry.compat.importers.result_file import ResultFile, ns_of, unix_ns
from telemetry.compat.importers.results import UNKNOWN, Results

TOOL: Final = "MLPerf LoadGen"
LOOKS_FOR: Final = "MLPerf LoadGen: the folder of its logs, with mlperf_log_detail.txt or mlperf_log_summary.txt"

KIND: Final = "request"
_DETAIL, _SUMMARY, _TRACE, _ACCURACY = (
    "mlperf_log_detail.txt*",
    "mlperf_log_summary.txt*",
    "mlperf_log_trace.json*",
    "mlperf_log_accuracy.json*",
)
_DETAIL_LINE: Final = b":::MLLOG "
_SAMPLE, _TOKEN, _CLOCK = b'{"name":"Sample",', b'{"name":"Token_Latency",', b'"ts":'
_SETTINGS: Final = (
    *("scenario", "test_mode", "samples_per_query", "target_qps", "target_latency_ns", "target_latency_percentile"),
    *("min_duration_ms", "max_duration_ms", "min_query_count", "max_query_count", "performance_sample_count"),
)
_CONDITIONS: Final = {
    "result_perf_constraints_met": "performance constraints",
    "result_min_duration_met": "minimum duration",
    "result_min_queries_met": "minimum number of queries",
    "early_stopping_met": "early stopping",
}
_SHOWN_MESSAGES: Final = 20
_NS_PER_US: Final = 1e3
_NS_PER_MS: Final = 1e6


def recognizes(file: ResultFile) -> bool:
    """Return whether it is a folder of logs, or one of the two logs that have figures."""
    if file.is_folder:
        return file.member(_DETAIL, _SUMMARY) is not None
    return file.head.startswith(_DETAIL_LINE) or b"MLPerf Results Summary" in file.head[:200]


def read(file: ResultFile, results: Results) -> None:
    """Read the samples of the trace, and the figures of the detailed log, else of the summary."""
    if file.is_folder:
        detail, summary, trace = file.member(_DETAIL), file.member(_SUMMARY), file.member(_TRACE)
        accuracy = file.member(_ACCURACY)
    else:
        detail, summary = (file, None) if file.head.startswith(_DETAIL_LINE) else (None, file)
        trace = accuracy = None
    results.is_dated = False
    end_ns = 0
    if detail is not None:
        end_ns = _read_detail(detail, results)
    elif summary is not None:
        _read_summary(summary, results)
    if trace is not None:
        _read_trace(trace, {} if accuracy is None else _tokens(accuracy), results)
    else:
        results.lacks("single samples: only mlperf_log_trace.json has them (LogSettings.enable_trace)")
        results.mark(0, "test began")
        results.mark(end_ns, "test ended")
    if "result" in results.params:
        results.mark(max(end_ns, results.time_range()[1]), _verdict(results.params))


def _verdict(params: Mapping[str, object]) -> str:
    failed = [text for name, text in _CONDITIONS.items() if params.get(name) is False]
    return f"result is {params['result']}" + (f": {', '.join(failed)} not satisfied" if failed else "")


def _read_detail(file: ResultFile, results: Results) -> int:
    """Read settings, messages and figures. Return the end of the test, as the time since its beginning."""
    end_ns, messages_left = 0, _SHOWN_MESSAGES
    for number, line in enumerate(file.lines(), 1):
        if not line.startswith(_DETAIL_LINE):
            continue
        try:
            entry = msgspec.json.decode(line[len(_DETAIL_LINE) :])
        except msgspec.DecodeError as error:
            raise ValueError(f"{file.path.name}, line {number}: {error}") from error
        key, value, at_ns, about = (
            entry["key"],
            entry["value"],
            ns_of(entry["time_ms"], _NS_PER_MS),
            entry["metadata"],
        )
        kind = "error" if about["is_error"] else "warning" if about["is_warning"] else ""
        if kind and messages_left:
            messages_left -= 1
            results.mark(at_ns, f"{kind}: {value}")
        if key == "loadgen_version":
            results.version = str(value).partition(" ")[0]
        elif key == "test_datetime":
            results.started_ns = unix_ns(value)
        elif key == "sut_name":
            results.name = str(value)
            results.param(key, value)
        elif key == "result_validity":
            results.param("result", value)
        elif key == "power_end":
            end_ns = at_ns
        elif key in _CONDITIONS or key.removeprefix("effective_") in _SETTINGS:
            results.param(key.removeprefix("effective_"), value)
        elif key.startswith("result_"):
            results.state(key, value, _unit(key))
    return end_ns


def _unit(key: str) -> str:
    if key.endswith(("_per_sec", "_per_second")) or "throughput" in key:
        return "/s"
    return "ns" if key.endswith("_ns") or key.startswith("result_time_to_output_token") else ""


def _read_summary(file: ResultFile, results: Results) -> None:
    """Read lines such as `Min latency (ns) : 47309284`."""
    are_settings = False
    for line in file.text_lines():
        name, _, text = (part.strip() for part in line.rpartition(":"))
        are_settings |= line.startswith("Test Parameters Used")
        if name == "Result is":
            results.param("result", text)
        elif name in ("SUT name", "Scenario", "Mode"):
            results.param(name, text)
        elif name and text.replace(".", "", 1).isdigit():
            if are_settings:
                results.param(name, float(text))
            else:
                results.state(name, float(text), "ns" if "(ns)" in name else "/s" if "per second" in name else "")
    results.lacks("the time of day and the version: the summary has none")


def _tokens(file: ResultFile) -> dict[int, int]:
    """Return the number of tokens by sample. Only an accuracy run has them, one sample per line."""
    tokens = {}
    for line in file.lines():
        if line.startswith(b"{"):
            entry = msgspec.json.decode(line.rstrip(b",\r\n "))
            if entry.get("token_count"):
                tokens[int(entry["seq_id"])] = int(entry["token_count"])
    return tokens


def _read_trace(file: ResultFile, tokens: Mapping[int, int], results: Results) -> None:
    """Read the samples. The trace as a whole is no JSON, but each line with a sample is."""
    requests = results.requests_of(KIND, {"issue_delay": "ms"})
    samples: list[tuple[int, int, int, int]] = []
    firsts: dict[int, int] = {}
    for line in file.lines():
        if line.startswith(_SAMPLE) and b'"ph":"b"' in line:
            ts, args = _event(line)
            samples.append(
                (ts, ts + int(args["complete_ns"]), int(args["issue_start_ns"]), int(args["sample_seq"]))
            )
        elif line.startswith(_TOKEN):
            ts, args = _event(line)
            # an event of the first token names no sample: its scheduled time tells which, unless several share it
            firsts[ts] = UNKNOWN if ts in firsts else ts + int(args["issue_delay"]) + int(args["issue_to_done"])
        elif line.startswith(_CLOCK):
            results.started_ns = ns_of(msgspec.json.decode(line[len(_CLOCK) :].rstrip(b",\r\n ")), _NS_PER_US)
    for start_ns, end_ns, delay_ns, number in samples:
        requests.add(
            start_ns,
            end_ns,
            first_ns=firsts.get(start_ns, UNKNOWN),
            output_tokens=tokens.get(number, UNKNOWN),
            values=(delay_ns / _NS_PER_MS,),
        )
    if not samples:
        results.lacks("single samples: the trace has none")
        return
    if UNKNOWN in firsts.values():
        results.lacks("first tokens of samples with the same scheduled time")
    if firsts:
        results.lacks("outputs after the first token")
    if firsts and not tokens:
        results.lacks("numbers of tokens of samples: only an accuracy run writes them")


def _event(line: bytes) -> tuple[int, Mapping[str, Any]]:
    """Return the time of a line's event in nanoseconds, and its arguments."""
    event = msgspec.json.decode(line.rstrip(b",\r\n "))
    return ns_of(event["ts"], _NS_PER_US), event["args"]
