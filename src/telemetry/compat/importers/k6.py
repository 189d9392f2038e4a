"""Results of k6: `k6 run --out json=FILE`, `--out csv=FILE`, and its summary, which has counts only.

Each HTTP request is a group of samples with the same time, its end, and the same tags. Its latency is
`http_req_duration`, as k6 has it: without the time to get a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from typing import Any, Final

import msgspec

from telemetry import limits
from telemetry.compat.importers.k6_summary import UNITS, read_summary
from telemetry.compat.importers.result_file import ResultFile, ns_of, time_ns, unix_ns
from telemetry.compat.importers.results import InstrumentKind, Results

TOOL: Final = "k6"
LOOKS_FOR: Final = "k6: files of `--out json` and `--out csv`, and its summaries as JSON"

_PHASES: Final = ("blocked", "connecting", "tls_handshaking", "sending", "waiting", "receiving")
_FIGURES: Final = dict.fromkeys(_PHASES, "ms")
_PREFIX: Final = "http_req_"
_OF_REQUEST: Final = {f"{_PREFIX}{word}": place for place, word in enumerate((*_PHASES, "duration", "failed"))}
_DURATION, _FAILED = len(_PHASES), len(_PHASES) + 1
_LINE, _TIME, _VALUE, _TAGS = b'{"metric":"', b'","type":"Point","data":{"time":"', b'","value":', b',"tags":{'
_BEGINNINGS: Final = [
    (_OF_REQUEST[name], b"".join((_LINE, name.encode(), _TIME)))
    for name in ("http_req_duration", *(f"{_PREFIX}{phase}" for phase in _PHASES), "http_req_failed")
]
"""Place and beginning of the samples after `http_reqs`, in the order in which k6 writes them."""
_TAG_SETS: Final = 10_000
_NAN: Final = float("nan")
_KINDS: Final[dict[str, InstrumentKind]] = {"trend": "series", "counter": "counter", "gauge": "gauge"}
_GAUGES: Final = ("vus", "vus_max")
_COUNTERS: Final = ("iterations", "dropped_iterations", "data_sent", "data_received", "ws_sessions")
_LABELS: Final = ("scenario", "group", "check")


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of k6."""
    return (
        file.first_line.startswith("metric_name,timestamp,metric_value,")
        or (file.has_keys("metric", "type", "data") and '"metric":"' in file.first_line)
        or file.has_keys("root_group", "metrics")
        or file.has_keys("k6Version", "results")
    )


def read(file: ResultFile, results: Results) -> None:
    """Read a file of samples, or a summary."""
    if file.first_line.startswith("metric_name,"):
        _read_csv(file, results)
    elif file.first_line.count("{") > 1 and '"metric"' in file.first_line:
        _read_json(file, results)
    else:
        read_summary(file.json(), results)


class _Samples:
    """A collector of samples, which joins those of each request."""

    def __init__(self, results: Results, ns: Callable[[str], int]) -> None:
        self._results = results
        self._ns = ns
        self.requests = results.requests_of("http", _FIGURES)
        self.kinds: dict[str, tuple[str, str]] = {}
        """Metric → its kind and its unit, as the file declares them."""
        self.request: tuple[str, object] | None = None
        """Time and tags of the current request."""
        self.values = [_NAN] * len(_OF_REQUEST)
        self._tags: Mapping[str, str] = {}
        self._parts: dict[tuple[str, str], str] = {}

    def take(self, metric: str, time: str, value: float, tags: Mapping[str, str], identity: object) -> None:
        """Take a sample. `identity` stands for its tags."""
        if metric == "http_reqs" or (metric == "http_req_duration" and self._is_new(time, identity)):
            self.finish()
            self.request, self._tags = (time, identity), tags
        if (place := _OF_REQUEST.get(metric)) is not None and self.request == (time, identity):
            self.values[place] = value
        elif metric != "http_reqs":
            self._take_other(metric, self._ns(time), value, tags)

    def _is_new(self, time: str, identity: object) -> bool:
        return self.request != (time, identity) or not isnan(self.values[_DURATION])

    def finish(self) -> None:
        """Add the current request to the results."""
        if self.request is None:
            return
        values, tags = self.values, self._tags
        end_ns = self._ns(self.request[0])
        self.requests.add(
            end_ns - ns_of(values[_DURATION], 1e6),
            end_ns,
            failure=_failure(tags) if values[_FAILED] == 1 else "",
            part=self._part(tags.get("method", ""), tags.get("name", "")),
            values=values[:_DURATION],
        )
        self.request, self.values = None, [_NAN] * len(_OF_REQUEST)

    def _part(self, method: str, name: str) -> str:
        part = self._parts.get((method, name))
        if part is None:
            part = self._results.label("name", f"{method} {name}".strip())
            if len(self._parts) < limits.IMPORTED_LABELS:
                self._parts[method, name] = part
        return part

    def _take_other(self, metric: str, at_ns: int, value: float, tags: Mapping[str, str]) -> None:
        kind, unit = self.kinds.get(metric) or _guess(metric)
        labels = {key: self._results.label(key, tags[key]) for key in _LABELS if tags.get(key)}
        if kind == "rate":
            labels["outcome"] = "pass" if value else "fail"
            self._results.values_of("counter", metric, "", labels).add(at_ns, 1.0)
        else:
            self._results.values_of(_KINDS.get(kind, "series"), metric, unit, labels).add(at_ns, value)


def _failure(tags: Mapping[str, str]) -> str:
    status = tags.get("status", "0")
    return f"status {status}" if status not in ("", "0") else tags.get("error", "") or "failed"


def _guess(metric: str) -> tuple[str, str]:
    """Return the kind and the unit of a metric that the file does not declare, as CSV never does."""
    if metric in _GAUGES:
        return "gauge", ""
    if metric in _COUNTERS:
        return "counter", "B" if metric.startswith("data_") else ""
    return ("rate", "") if metric == "checks" else ("trend", "ms" if "duration" in metric else "")


def _read_json(file: ResultFile, results: Results) -> None:
    """Read lines such as {"metric":"…","type":"Point","data":{"time":"…","value":…,"tags":{…}}}.

    Most lines belong to the request before. They are recognized without being parsed.
    """
    samples, decode = _Samples(results, unix_ns), msgspec.json.Decoder().decode
    tags_by_text: dict[bytes, dict[str, str]] = {}
    lines, number = file.lines(), 1
    line = next(lines, b"")
    while line:
        time_at = line.find(_TIME, len(_LINE)) + len(_TIME)
        time_end = line.find(_VALUE, time_at)
        tags_at = line.find(_TAGS, time_end)
        try:
            if not (line.startswith(_LINE) and len(_LINE) + len(_TIME) < time_at < time_end < tags_at):
                if line.strip():
                    _take_line(decode(line), samples)
                line, number = next(lines, b""), number + 1
                continue
            metric, text = line[len(_LINE) : time_at - len(_TIME)].decode(), line[tags_at:]
            tags = tags_by_text.get(text)
            if tags is None:
                if len(tags_by_text) > _TAG_SETS:
                    tags_by_text.clear()
                tags = tags_by_text[text] = decode(b"{" + text.rstrip()[1:-1])["tags"]
            samples.take(
                metric, line[time_at:time_end].decode(), float(line[time_end + len(_VALUE) : tags_at]), tags, text
            )
            middle, values = line[time_at : time_end + len(_VALUE)], samples.values
            line, number = next(lines, b""), number + 1
            if metric == "http_reqs":
                for place, beginning in _BEGINNINGS:
                    if not (line.endswith(text) and line.startswith(beginning + middle)):
                        break
                    values[place] = float(line[len(beginning) + len(middle) : -len(text)])
                    line, number = next(lines, b""), number + 1
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"line {number} is no sample of k6: {error}") from error
    samples.finish()


def _take_line(sample: Any, samples: _Samples) -> None:
    data = sample["data"]
    if sample["type"] == "Metric":
        samples.kinds[sample["metric"]] = data["type"], UNITS.get(data["contains"], "")
    else:
        tags = data.get("tags") or {}
        samples.take(sample["metric"], data["time"], float(data["value"]), tags, str(tags))


def _read_csv(file: ResultFile, results: Results) -> None:
    samples = _Samples(results, time_ns)
    for row in file.dict_rows():
        metric, time, value = row.pop("metric_name"), row.pop("timestamp"), row.pop("metric_value")
        samples.take(metric, time, float(value), row, tuple(row.values()))
    samples.finish()
    if all(requests.ends[0] % 10**9 == 0 for requests in results.requests.values() if len(requests)):
        results.lacks("times below a second: k6 writes whole seconds unless K6_CSV_TIME_FORMAT=rfc3339_nano is set")
