"""Figures of requests, computed again from the exported request log by code that shares nothing with the program.

This module imports nothing of `telemetry`: it runs the commands and reads their files. Each definition is written
out here a second time.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import pytest

Row = dict[str, Any]
ROOT = Path(__file__).parents[2]
LOAD = str(ROOT / "examples" / "llm_load.py")
SERVER = [*("--first-ms", "15"), *("--gap-ms", "2"), *("--tokens", "14"), *("--busy", "0.05"), *("--cut", "0.05")]
LIMITS_MS = {"ttft": 40, "tpot": 5}
AFTERWARDS_MS = {"ttft": 25, "e2el": 90}
DEADLINE_S = 90
SECOND = 10**9


def telemetry(folder: Path, *words: str) -> str:
    """Run a command of the program and return its output."""
    made = subprocess.run(
        [sys.executable, "-m", "telemetry", *words],
        cwd=folder,
        env={**os.environ, "TELEMETRY_RUN_DIR": str(folder / "runs")},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of the example load, and its exported requests."""
    found = tmp_path_factory.mktemp("recomputed")
    limits = [f"{key}:{limit}" for key, limit in LIMITS_MS.items()]
    load = [sys.executable, LOAD, "--rate", "90", "--seconds", "3", "--plain", "0.1", *SERVER]
    telemetry(found, "run", "--name", "llm", "--goodput", *limits, "--", *load)
    telemetry(found, "export", "latest", "--requests", "requests.jsonl")
    return found


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    """Return the exported requests."""
    found = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert len(found) > 150
    assert {row["outcome"] for row in found} == {"completed", "failed"}
    assert any(row["first_ns"] is None for row in completed(found))
    assert any(tokens > 1 for row in found for tokens in row["chunk_tokens"])
    return found


# --- definitions, written out --------------------------------------------------------------------


def completed(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["outcome"] == "completed"]


def chunks(row: Row) -> list[int]:
    """Return the time of each chunk. An answer that came as a whole has one, at its end."""
    if row["first_ns"] is None:
        return [row["ended_ns"]] if row["output_tokens"] else []
    return list(accumulate(row["gaps_ns"], initial=row["first_ns"]))


def linear(values: list[float], percentile: float) -> float:
    """Return a percentile between two values."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percentile / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def span_s(rows: list[Row]) -> float:
    return (max(row["ended_ns"] for row in rows) - min(row["issued_ns"] for row in rows)) / SECOND


def spread(values: list[float], names: dict[str, str]) -> dict[str, float]:
    """Return statistics under the names of a tool."""
    known: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "median": median, "std": pstdev, "max": max}
    known |= {
        "min": min,
        **{f"p{one}": lambda x, one=one: linear(x, one) for one in (1, 5, 10, 25, 50, 75, 90, 95, 99)},
    }
    return {name: known[key](values) for key, name in names.items()}


def best_second(times: list[int], begin: int) -> int:
    return max(Counter((time - begin) // SECOND for time in times).values())


def most_in_a_second(spans: list[tuple[int, int]]) -> int:
    begin = min(first for first, _ in spans)
    seconds: Counter[int] = Counter()
    for first, last in spans:
        seconds.update(range((first - begin) // SECOND, (last - begin) // SECOND + 1))
    return max(seconds.values())


def gaps_ms(rows: list[Row]) -> list[float]:
    return [gap / 1e6 for row in rows for gap in row["gaps_ns"]]


def vllm(rows: list[Row]) -> dict[str, float]:
    done = [row for row in completed(rows) if chunks(row)]
    ttft = {id(row): chunks(row)[0] - row["issued_ns"] for row in done}
    e2el = {id(row): chunks(row)[-1] - row["issued_ns"] for row in done}
    several = [row for row in done if row["output_tokens"] > 1]
    tpot = {id(row): (e2el[id(row)] - ttft[id(row)]) / (row["output_tokens"] - 1) for row in several}
    good = [
        row
        for row in done
        if ttft[id(row)] <= LIMITS_MS["ttft"] * 1e6 and tpot.get(id(row), 0) <= LIMITS_MS["tpot"] * 1e6
    ]
    seconds, outputs = span_s(rows), sum(row["output_tokens"] for row in done)
    inputs = sum(row["input_tokens"] for row in done)
    found = {
        "duration": seconds,
        "completed": len(done),
        "failed": len(rows) - len(done),
        "num_prompts": len(rows),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(done) / seconds,
        "request_goodput": len(good) / seconds,
        "output_throughput": outputs / seconds,
        "total_token_throughput": (inputs + outputs) / seconds,
        "max_output_tokens_per_s": best_second(
            [time for row in done for time in chunks(row)], min(row["issued_ns"] for row in done)
        ),
        "max_concurrent_requests": most_in_a_second([(row["issued_ns"], chunks(row)[-1]) for row in done]),
        "rtfx": 0,
    }
    for key, values in (
        ("ttft", [one / 1e6 for one in ttft.values()]),
        ("tpot", [one / 1e6 for one in tpot.values()]),
        ("itl", gaps_ms(done)),
        ("e2el", [one / 1e6 for one in e2el.values()]),
    ):
        found |= spread(values, {one: f"{one}_{key}_ms" for one in ("mean", "median", "std", "p99")})
    return found


def token_gaps(row: Row) -> Iterator[tuple[float, float]]:
    """Yield the gap of each token after the first chunk, and when the token came."""
    at = chunks(row)[0]
    for gap, tokens in zip(row["gaps_ns"], row["chunk_tokens"], strict=True):
        for place in range(tokens):
            yield gap / tokens, at + gap / tokens * (place + 1)
        at += gap


def sglang(rows: list[Row], *, native: bool) -> dict[str, Any]:
    done = completed(rows)
    ttft = [chunks(row)[0] - row["issued_ns"] for row in done]
    e2e = [row["ended_ns"] - row["issued_ns"] for row in done]
    tpot = [
        None if row["output_tokens"] < 2 else (whole - first) / (row["output_tokens"] - 1)
        for row, whole, first in zip(done, e2e, ttft, strict=True)
    ]
    in_time = [first <= LIMITS_MS["ttft"] * 1e6 for first in ttft]
    fast = [one is None or one <= LIMITS_MS["tpot"] * 1e6 for one in tpot]
    good = sum(map(all, zip(in_time, fast, strict=True)))
    gaps, times = gaps_ms(done), [time for row in done for time in chunks(row)]
    if native:
        found = [one for row in done for one in token_gaps(row)]
        gaps = [gap / 1e6 for gap, _ in found]
        times = [*(chunks(row)[0] for row in done), *(round(time) for _, time in found)]
    seconds, outputs = span_s(rows), sum(row["output_tokens"] for row in done)
    inputs = sum(row["input_tokens"] for row in done)
    figures: dict[str, Any] = {
        "duration": seconds,
        "completed": len(done),
        "total_input_tokens": inputs,
        "total_input_text_tokens": inputs,
        "total_input_vision_tokens": 0,
        "total_output_tokens": outputs,
        "request_throughput": len(done) / seconds,
        "input_throughput": inputs / seconds,
        "output_throughput": outputs / seconds,
        "total_throughput": (inputs + outputs) / seconds,
        "concurrency": sum(e2e) / SECOND / seconds,
        "max_output_tokens_per_s": best_second(times, min(row["issued_ns"] for row in done)),
        "max_concurrent_requests": most_in_a_second([(row["issued_ns"], row["ended_ns"]) for row in done]),
        "goodput_slos_ms": LIMITS_MS,
        "request_goodput": good / seconds,
        "slo_attainment": good / len(rows),
        "slo_attainment_by_metric": {"ttft": sum(in_time) / len(rows), "tpot": sum(fast) / len(rows)},
        "max_itl_ms": max(gaps),
    }
    for key, values in (
        ("e2e_latency", [one / 1e6 for one in e2e]),
        ("ttft", [one / 1e6 for one in ttft]),
        ("tpot", [one / 1e6 for one in tpot if one is not None]),
        ("itl", gaps),
    ):
        statistics = ("mean", "median", "std", "p90", "p95", "p99")
        figures |= spread(values, {one: f"{one}_{key}_ms" for one in statistics})
    return figures


def aiperf(rows: list[Row]) -> dict[str, Any]:
    done = [row for row in completed(rows) if chunks(row)]
    failed = [row for row in rows if row not in done]
    ttft = [chunks(row)[0] - row["issued_ns"] for row in done]
    latency = [chunks(row)[-1] - row["issued_ns"] for row in done]
    decode = [whole - first for whole, first in zip(latency, ttft, strict=True)]
    itl = [
        span / (row["output_tokens"] - 1) if row["output_tokens"] > 1 else None
        for row, span in zip(done, decode, strict=True)
    ]
    good = sum(
        first <= LIMITS_MS["ttft"] * 1e6 and one is not None and one <= LIMITS_MS["tpot"] * 1e6
        for first, one in zip(ttft, itl, strict=True)
    )
    tokens = [row["output_tokens"] for row in done]
    inputs = [row["input_tokens"] for row in done]
    per_token = [one for one in itl if one is not None]
    seconds = (max(chunks(row)[-1] for row in done) - min(row["issued_ns"] for row in done)) / SECOND
    values: dict[str, tuple[list[float], str]] = {
        "time_to_first_token": (milliseconds(ttft), "ms"),
        "time_to_first_output_token": (milliseconds(ttft), "ms"),
        "time_to_second_token": (milliseconds([row["gaps_ns"][0] for row in done if row["gaps_ns"]]), "ms"),
        "request_latency": (milliseconds(latency), "ms"),
        "decode_duration": (milliseconds(decode), "ms"),
        "inter_token_latency": (milliseconds(per_token), "ms"),
        "inter_chunk_latency": (gaps_ms(done), "ms"),
        "output_token_throughput_per_user": ([SECOND / one for one in per_token if one], "tokens/sec/user"),
        "e2e_output_token_throughput": (quotients(tokens, latency), "tokens/sec/user"),
        "prefill_throughput_per_user": (quotients(inputs, ttft), "tokens/sec/user"),
        "output_sequence_length": (tokens, "tokens"),
        "output_token_count": (tokens, "tokens"),
        "input_sequence_length": (inputs, "tokens"),
        "error_isl": ([row["input_tokens"] for row in failed], "tokens"),
    }
    names = {"mean": "avg", **{one: one for one in ("min", "max", "std", "p1", "p5", "p10", "p25", "p50", "p75")}}
    names |= {one: one for one in ("p90", "p95", "p99")}
    found: dict[str, Any] = {
        tag: {**spread(one, names), "unit": unit, "count": len(one), "sum": sum(one)}
        for tag, (one, unit) in values.items()
    }
    for tag, unit, value in (
        ("request_count", "requests", len(done)),
        ("error_request_count", "requests", len(failed)),
        ("completed_request_count", "requests", len(rows)),
        ("request_error_rate", "%", 100 * len(failed) / len(rows)),
        ("benchmark_duration", "sec", seconds),
        ("request_throughput", "requests/sec", len(done) / seconds),
        ("output_token_throughput", "tokens/sec", sum(tokens) / seconds),
        ("input_token_throughput", "tokens/sec", sum(inputs) / seconds),
        ("total_token_throughput", "tokens/sec", (sum(inputs) + sum(tokens)) / seconds),
        ("goodput", "requests/sec", good / seconds),
        ("good_request_count", "requests", good),
        ("good_request_fraction", "ratio", good / len(rows)),
        ("total_isl", "tokens", sum(inputs)),
        ("total_osl", "tokens", sum(tokens)),
        ("total_output_tokens", "tokens", sum(tokens)),
        ("total_error_isl", "tokens", sum(row["input_tokens"] for row in failed)),
    ):
        found[tag] = {"unit": unit, "avg": value}
    for tag in ("time_to_first_token", "request_latency", "decode_duration", "inter_token_latency"):
        found[f"adj_{tag}"] = adjusted(values[tag][0], len(failed))
    return found


def milliseconds(values: list[Any]) -> list[float]:
    return [value / 1e6 for value in values]


def quotients(amounts: list[float], durations_ns: list[int]) -> list[float]:
    return [one * SECOND / spent for one, spent in zip(amounts, durations_ns, strict=True) if spent]


def adjusted(values: list[float], failures: int) -> dict[str, Any]:
    """Return the nearest values, with an infinite one for each failure; infinite ones are null."""
    ordered = sorted(values) + [math.inf] * failures
    nearest = {one: ordered[round((len(ordered) - 1) * one / 100)] for one in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    return {
        "unit": "ms",
        "avg": None,
        "sum": None,
        "max": None,
        "min": ordered[0],
        "count": len(ordered),
        **{f"p{one}": None if math.isinf(value) else value for one, value in nearest.items()},
    }


# --- comparisons ---------------------------------------------------------------------------------


def check(wanted: Any, found: Any, where: str = "") -> None:
    """Compare all figures that were computed again."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            check(value, found[key], f"{where}.{key}")
    elif isinstance(wanted, float | int):
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9), where
    else:
        assert found == wanted, where


def nothing_more(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Check that all numbers of a document were computed again."""
    left = {key for key, value in found.items() if isinstance(value, int | float | dict)} - {*wanted, "telemetry"}
    assert not left


def as_tool(folder: Path, tool: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(telemetry(folder, "report", "latest", "--as", tool, "--json"))
    assert found["telemetry"]["coverage"] == ""
    return found


def test_figures_of_vllm(folder: Path, rows: list[Row]) -> None:
    """All numbers of `--as vllm` follow from the exported requests."""
    wanted, found = vllm(rows), as_tool(folder, "vllm")
    check(wanted, found)
    nothing_more(wanted, found)


@pytest.mark.parametrize("native", [False, True])
def test_figures_of_sglang(folder: Path, rows: list[Row], native: bool) -> None:
    """All numbers of `--as sglang` and `--as sglang-native` follow from the exported requests."""
    wanted, found = sglang(rows, native=native), as_tool(folder, "sglang-native" if native else "sglang")
    check(wanted, found)
    nothing_more(wanted, found)


def test_figures_of_aiperf(folder: Path, rows: list[Row]) -> None:
    """All numbers of `--as aiperf` follow from the exported requests."""
    wanted, found = aiperf(rows), as_tool(folder, "aiperf")
    check(wanted, found)
    nothing_more(wanted, found)


def test_a_time_range_has_the_requests_issued_in_it(folder: Path, rows: list[Row]) -> None:
    """The requests of a time range are those issued in it by the wall clock.

    The range is the second around the median request, as a slow machine may need two seconds to start the programs.
    """
    started_ns = json.loads(telemetry(folder, "report", "latest", "--json"))["started_ns"]
    half_way_s = (median(wall_ns(row["issued_at"]) for row in rows) - started_ns) / SECOND
    words = ["report", "latest", "--from", f"{half_way_s - 0.5}s", "--to", f"{half_way_s + 0.5}s", "--json"]
    report = json.loads(telemetry(folder, *words))
    edges = (report["time_range"][key] for key in ("start_s", "end_s"))
    begin, end = (report["started_ns"] + round(at_s * SECOND) for at_s in edges)
    issued = [wall_ns(row["issued_at"]) for row in rows]  # the first request may be the edge itself
    some = [row for row, at in zip(rows, issued, strict=True) if begin <= at < end]
    assert 0 < len(some) < len(rows)
    wanted, found = vllm(some), json.loads(telemetry(folder, *words, "--as", "vllm"))
    nearest = [min((at - edge for at in issued), key=abs) for edge in (begin, end)]
    assert found["completed"] + found["failed"] == len(some), f"requests nearest to the edges: {nearest} ns"
    check(wanted, found)


def wall_ns(text: str) -> int:
    """Return a wall-clock time to the nanosecond, which no float can hold."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return round(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * SECOND + int(fraction.ljust(9, "0"))


def issued_s(row: Row) -> float:
    """Return the wall-clock time of the issue, to the microsecond."""
    return datetime.fromisoformat(f"{row['issued_at'][:26]}+00:00").timestamp()


def judged(rows: list[Row], limits_ms: dict[str, int]) -> dict[str, Any]:
    """Return good requests by the rules of docs/REQUESTS.md, for limits of ttft, tpot and e2el."""
    met = dict.fromkeys(limits_ms, 0)
    good = 0
    for row in completed(rows):
        first, output = row["first_ns"], row["output_tokens"]
        verdicts = {
            "ttft": first is not None and first - row["issued_ns"] <= limits_ms.get("ttft", 0) * 10**6,
            "tpot": first is None
            or output <= row["first_tokens"]
            or row["ended_ns"] - first <= limits_ms.get("tpot", 0) * 10**6 * (output - row["first_tokens"]),
            "e2el": row["ended_ns"] - row["issued_ns"] <= limits_ms.get("e2el", 0) * 10**6,
        }
        for key in limits_ms:
            met[key] += verdicts[key]
        good += all(verdicts[key] for key in limits_ms)
    assert 0 < good < len(rows)
    return {
        "good": good,
        "met": met,
        "attainment": good / len(rows),
        "goodput_per_s": good / span_s(completed(rows)),
    }


@pytest.mark.parametrize(
    ("limits_ms", "words"),
    [
        (LIMITS_MS, []),
        (LIMITS_MS, ["--goodput", "ttft:40", "tpot:5"]),
        (AFTERWARDS_MS, ["--goodput", "ttft:25,e2el:90ms"]),
    ],
    ids=["as recorded", "the same limits afterwards", "other limits afterwards"],
)
def test_goodput_and_attainment(folder: Path, rows: list[Row], limits_ms: dict[str, int], words: list[str]) -> None:
    """Goodput and attainment follow from the exported requests, as recorded and judged afterwards."""
    report = json.loads(telemetry(folder, "report", "latest", "--json", *words))
    check(judged(rows, limits_ms), report["requests"][0])
    counters = {one["name"]: one["value"] for one in report["counters"] if not one["labels"]}
    assert counters["llm.good"] == judged(rows, limits_ms)["good"]


def test_our_figures_beside_those_of_a_tool(folder: Path, rows: list[Row]) -> None:
    """The column of our figures has those of the report, and differences name their reasons."""
    document = json.loads(telemetry(folder, "report", "latest", "--as", "vllm", "--beside", "--json"))
    figures = {one["name"]: one for one in document["figures"]}
    report = json.loads(telemetry(folder, "report", "latest", "--json"))["requests"][0]
    for name, field in (
        ("goodput/s", "goodput_per_s"),
        ("output tokens/s", "output_tokens_per_s"),
        ("total tokens/s", "total_tokens_per_s"),
        ("peak in flight", "concurrency_peak"),
        ("best second, tokens", "peak_output_tokens_per_s"),
    ):
        check(report[field], figures[name]["ours"], name)
    wanted = vllm(rows)
    check({one["field"]: wanted[one["field"]] for one in figures.values()}, by_field(figures))
    assert all(one["why"] for one in figures.values() if abs(one["ours"] - one["theirs"]) > 1e-6)
    assert "one token" in figures["tpot mean ms"]["why"]


def by_field(figures: dict[str, Any]) -> dict[str, float]:
    return {one["field"]: one["theirs"] for one in figures.values()}
