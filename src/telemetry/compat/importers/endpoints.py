"""Results of an MLCommons endpoints benchmark: the folder of its report, or its `events.jsonl`.

Requests look like those of the live feed of the benchmark. One lasts from `sample.issued` to `sample.complete`,
also if it failed. Times are those of a monotonic clock.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from telemetry.common.formatting import number_of
from telemetry.compat.importers.result_file import ResultFile
from telemetry.compat.importers.results import UNKNOWN, Results
from telemetry.integrations.endpoints import decode
from telemetry.integrations.endpoints.decode import EndpointFailure, Event, Prompt
from telemetry.integrations.endpoints.translate import KIND, WINDOW

TOOL: Final = "MLCommons endpoints"
LOOKS_FOR: Final = "MLCommons endpoints: the folder of its report, with events.jsonl"

_EVENTS: Final = ("events.jsonl", "events.jsonl.gz")
_SUMMARIES: Final = ("performance/result_summary.json", "result_summary.json")
_MARKS: Final = {
    decode.STARTED: "session started",
    decode.ENDED: "session ended",
    decode.INTERRUPTED: "session interrupted",
    decode.TRACKING_BEGINS: f"tracking {WINDOW} began",
    decode.TRACKING_ENDS: f"tracking {WINDOW} ended",
}
_NS: Final = ("ttft", "tpot", "latency", "duration_ns", "legacy_loadgen")
"""Beginnings of the names of figures in nanoseconds."""
_NO_FIGURES: Final = ("histogram", "run_config", "test_started_at")
_SHOWN_ERRORS: Final = 20


def recognizes(file: ResultFile) -> bool:
    """Return whether it is the folder of a report, or its events."""
    events = file.member(*_EVENTS) if file.is_folder else file
    if events is not None:
        return events.has_keys("event_type", "timestamp_ns", "sample_uuid")
    summary = file.member(*_SUMMARIES)
    return summary is not None and summary.has_keys("n_samples_issued", "n_samples_failed", "duration_ns")


def read(file: ResultFile, results: Results) -> None:
    """Read the events, and the figures of the summary."""
    results.is_dated = False
    results.lacks("the time of day: the events have the times of a monotonic clock")
    if not file.is_folder:
        _read_events(file, results)
        return
    if (summary := file.member(*_SUMMARIES)) is not None:
        _read_summary(summary.json(), results)
    if (events := file.member(*_EVENTS)) is not None:
        _read_events(events, results)
    else:
        results.lacks("single requests: the folder has no events.jsonl")
        results.mark(0, "benchmark began")
        results.mark(round((results.measured_s or 0) * 1e9), "benchmark ended")


class _Sample:
    """A request on its way. Times are those of its events."""

    __slots__ = ("chunks", "end_ns", "failed_ns", "failure", "first_ns", "input_tokens", "is_tracked", "start_ns")

    def __init__(self, start_ns: int, input_tokens: int, *, is_tracked: bool) -> None:
        self.start_ns = start_ns
        self.input_tokens = input_tokens
        self.is_tracked = is_tracked
        self.first_ns = self.end_ns = self.failed_ns = UNKNOWN
        self.chunks = array("q")
        self.failure = ""


class _Samples:
    """A collector of the events of all requests, which are not in the order of their times."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._by_id: dict[str, _Sample] = {}
        self._is_tracking = False
        self._is_ever_tracking = False
        self._errors_left = _SHOWN_ERRORS
        self._data = msgspec.json.Decoder(decode.Data | None)

    def take(self, event: Event) -> None:
        """Take an event. Those of requests that never began are skipped, as the benchmark does."""
        word = event.event_type
        if word == decode.ISSUED:
            self._issue(event)
        elif word in _MARKS:
            self._mark(event)
        elif (sample := self._by_id.get(event.sample_uuid)) is not None:
            if word == decode.FIRST:
                sample.first_ns = event.timestamp_ns
            elif word == decode.CHUNK:
                sample.chunks.append(event.timestamp_ns)
            elif word == decode.COMPLETE:
                sample.end_ns = event.timestamp_ns
            elif word in decode.ERRORS and not sample.failure:
                sample.failed_ns, (sample.failure, _) = event.timestamp_ns, self._failure(event)
        elif word in decode.ERRORS and not event.sample_uuid and self._errors_left:
            self._errors_left -= 1
            text = ": ".join(filter(None, self._failure(event)))
            self._results.mark(event.timestamp_ns, f"the benchmark reports {text}")

    def _issue(self, event: Event) -> None:
        prompt = self._data.decode(event.data)
        tokens = UNKNOWN
        if isinstance(prompt, Prompt) and bytes(prompt.token_ids)[:1] == b"[":
            tokens = len(msgspec.json.decode(prompt.token_ids))
        self._by_id[event.sample_uuid] = _Sample(event.timestamp_ns, tokens, is_tracked=self._is_tracking)

    def _mark(self, event: Event) -> None:
        word = event.event_type
        if word in (decode.TRACKING_BEGINS, decode.TRACKING_ENDS):
            self._is_tracking = word == decode.TRACKING_BEGINS
            self._is_ever_tracking |= self._is_tracking
        self._results.is_interrupted |= word == decode.INTERRUPTED
        self._results.mark(event.timestamp_ns, _MARKS[word])

    def _failure(self, event: Event) -> tuple[str, str]:
        """Return the type of an error, as the feed names it, and its message."""
        error = self._data.decode(event.data)
        what, message = (error.error_type, error.error_message) if isinstance(error, EndpointFailure) else ("", "")
        return what or event.event_type.removeprefix("error."), message

    def finish(self) -> None:
        """Add all requests to the results, without those outside of tracking."""
        results, requests = self._results, self._results.requests_of(KIND)
        untracked = [it for it in self._by_id.values() if self._is_ever_tracking and not it.is_tracked]
        if untracked:
            at_ns, text = untracked[0].start_ns, number_of(len(untracked), "request")
            results.mark(at_ns, f"left out, as by the tool: {text} outside of tracking, such as warm-up")
        unended = 0
        for sample in self._by_id.values():
            if self._is_ever_tracking and not sample.is_tracked:
                continue
            if sample.end_ns == sample.failed_ns == UNKNOWN:
                unended += 1
                continue
            requests.add(
                sample.start_ns,
                sample.failed_ns if sample.end_ns == UNKNOWN else sample.end_ns,
                failure=sample.failure,
                first_ns=sample.first_ns,
                chunks_ns=sorted(sample.chunks),
                input_tokens=sample.input_tokens,
            )
        if unended:
            results.lacks(f"the end of {number_of(unended, 'request')}, left out here")
        if not requests.chunks:
            results.lacks("outputs after the first: the benchmark ran without --client.stream-all-chunks")
        if all(tokens == UNKNOWN for tokens in requests.input_tokens):
            results.lacks("numbers of input tokens: the events have texts")
        results.lacks("numbers of output tokens: the events have texts")


def _read_events(file: ResultFile, results: Results) -> None:
    samples, decoder = _Samples(results), msgspec.json.Decoder(Event)
    for number, line in enumerate(file.lines(), 1):
        if line.strip():
            try:
                samples.take(decoder.decode(line))
            except msgspec.DecodeError as error:
                raise ValueError(f"line {number} is no event: {error}") from error
    samples.finish()


def _read_summary(summary: Any, results: Results) -> None:
    results.version = str(summary["version"])
    for name, value in _leaves(summary["run_config"] or {}):
        results.param(name, value)
    for name, value in _leaves(summary):
        results.state(name, value, _unit(name))
    duration_ns = summary.get("legacy_loadgen_window_duration_ns") or summary["duration_ns"]
    results.measured_s = None if duration_ns is None else duration_ns / 1e9
    results.is_interrupted = summary["state"] == "interrupted"


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all figures with the keys on the way to them, joined by dots."""
    for key, value in tree.items():
        if isinstance(value, dict) and key not in _NO_FIGURES:
            yield from _leaves(value, f"{path}{key}.")
        elif key not in _NO_FIGURES:
            yield f"{path}{key}", value


def _unit(name: str) -> str:
    if name in ("qps", "tps"):
        return "/s"
    return "ns" if name.startswith(_NS) else ""
