"""Reads what the backend serves: by a scrape, and by PromQL from a Prometheus that scraped it."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.backends.written import Written
from tests.ports import free_port
from tests.processes import end_group

from telemetry.common.wording import labelled

TEXT = "text/plain"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
Key = tuple[str, frozenset[tuple[str, str]]]
_SCALARS = {"double": 1, "int32": 5, "uint32": 13, "uint64": 4, "sint32": 17, "sint64": 18, "string": 9}
_MESSAGES: dict[str, list[tuple[str, int, str, bool]]] = {
    "LabelPair": [("name", 1, "string", False), ("value", 2, "string", False)],
    "Number": [("value", 1, "double", False)],
    "Bucket": [("cumulative_count", 1, "uint64", False), ("upper_bound", 2, "double", False)],
    "BucketSpan": [("offset", 1, "sint32", False), ("length", 2, "uint32", False)],
    "Histogram": [
        ("sample_count", 1, "uint64", False),
        ("sample_sum", 2, "double", False),
        ("bucket", 3, "Bucket", True),
        ("schema", 5, "sint32", False),
        ("zero_threshold", 6, "double", False),
        ("zero_count", 7, "uint64", False),
        ("positive_span", 12, "BucketSpan", True),
        ("positive_delta", 13, "sint64", True),
    ],
    "Metric": [
        ("label", 1, "LabelPair", True),
        ("gauge", 2, "Number", False),
        ("counter", 3, "Number", False),
        ("histogram", 7, "Histogram", False),
    ],
    "MetricFamily": [
        ("name", 1, "string", False),
        ("help", 2, "string", False),
        ("type", 3, "int32", False),
        ("metric", 4, "Metric", True),
        ("unit", 5, "string", False),
    ],
}
"""What `io/prometheus/client/metrics.proto` says of them."""


def message(name: str) -> Any:
    """A class of protobuf's own for one of the messages."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool: Any = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="p", syntax="proto2")
    for title, fields in _MESSAGES.items():
        made = file.message_type.add(name=title)
        for field_name, number, kind, many in fields:
            one = made.field.add(name=field_name, number=number, label=3 if many else 1)
            one.type = _SCALARS.get(kind, 11)
            if kind not in _SCALARS:
                one.type_name = f".p.{kind}"
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"p.{name}"))


def get(address: str, accept: str) -> tuple[str, bytes]:
    """(content type, body) of one scrape."""
    with urlopen(Request(address, headers={"Accept": accept}), timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read()


def samples(content_type: str, body: bytes) -> dict[Key, float]:
    """Every sample, as another's reader understands it; of protobuf, what text would say."""
    if content_type.startswith("application/vnd.google.protobuf"):
        return dict(_of_protobuf(body))
    if content_type.startswith("application/openmetrics-text"):
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
    else:
        from prometheus_client.parser import text_string_to_metric_families as read
    found: dict[Key, float] = {}
    for family in read(body.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def messages(body: bytes) -> list[Any]:
    """Return the messages of a body of delimited protobuf."""
    from google.protobuf.internal.decoder import _DecodeVarint32

    family = message("MetricFamily")
    found, at = [], 0
    while at < len(body):
        size, at = _DecodeVarint32(body, at)
        found.append(family.FromString(body[at : at + size]))
        at += size
    return found


def _of_protobuf(body: bytes) -> Iterator[tuple[Key, float]]:
    for family in messages(body):
        for metric in family.metric:
            labels = [(pair.name, pair.value) for pair in metric.label]
            if family.type == 4:
                histogram = metric.histogram
                yield (f"{family.name}_sum", frozenset(labels)), histogram.sample_sum
                yield (f"{family.name}_count", frozenset(labels)), histogram.sample_count
                bounds = [(repr(one.upper_bound), one.cumulative_count) for one in histogram.bucket]
                for bound, count in [*bounds, ("+Inf", histogram.sample_count)]:
                    yield (f"{family.name}_bucket", frozenset([*labels, ("le", bound)])), count
            else:
                yield (family.name, frozenset(labels)), getattr(metric, ("counter", "gauge")[family.type]).value


def written(found: dict[Key, float]) -> Written:
    """Return the newest value of each name of each axis, and the finals by their Prometheus names.

    A pull system has no more than these.
    """
    result = Written()
    newest = {
        dict(labels)["axis"]: int(value) for (name, labels), value in found.items() if name.endswith("newest")
    }
    for (name, labels), value in found.items():
        words = dict(labels)
        if name == "telemetry_step_value":
            result.steps.setdefault((words["axis"], newest[words["axis"]]), {})[words["name"]] = value
        elif not name.startswith("telemetry_"):
            inside = ",".join(f"{key}={text}" for key, text in sorted(words.items()))
            result.finals[f"{name}{{{inside}}}" if inside else name] = value
    return result


@dataclass
class Asked:
    """A Prometheus."""

    address: str
    process: subprocess.Popen[bytes] = field(repr=False)

    def values(self, promql: str) -> dict[frozenset[tuple[str, str]], float]:
        """Labels → value, of an instant query."""
        with urlopen(f"{self.address}/api/v1/query?{urlencode({'query': promql})}", timeout=30) as answer:
            data = json.loads(answer.read())["data"]
        return {
            frozenset(
                (key, value) for key, value in one["metric"].items() if key not in ("job", "instance")
            ): float(one["value"][1])
            for one in data["result"]
        }

    def value(self, promql: str) -> float:
        """Return the value of a query with at most one answer, and NaN if there is no answer."""
        found = list(self.values(promql).values())
        assert len(found) <= 1, found
        return found[0] if found else math.nan


@contextmanager
def prometheus(program: str, folder: Path, target: str, *, native: bool = False) -> Iterator[Asked]:
    """One that scrapes `target`, a host and port, five times a second, or the targets that a URL `target` names."""
    folder.mkdir()
    config = folder / "prometheus.yml"
    found = (
        f"http_sd_configs: [{{url: '{target}', refresh_interval: 1s}}]"
        if "://" in target
        else f"static_configs: [{{targets: ['{target}']}}]"
    )
    config.write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
        f"scrape_configs: [{{job_name: runs, {found}}}]\n"
    )
    port = free_port()
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *(["--enable-feature=native-histograms"] if native else []),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield Asked(f"http://127.0.0.1:{port}", process)
        finally:
            end_group(process)


_BODY = "scraped.txt"
_UNITS = {"ms": 1e-3}


def meanwhile(folder: Path, where: str) -> None:
    """One scrape, kept beside the writer's files: later there is nobody to ask."""
    if not where:
        return
    try:
        _, body = get(where, TEXT)
    except (OSError, HTTPException):  # the writer may be killed during its answer
        return
    (folder / _BODY).write_bytes(body)


def read_back(folder: Path, where: str = "") -> Written:
    """Return the newest step of each axis from the last scrape, and the numbers as flat names."""
    from prometheus_client.parser import text_string_to_metric_families as families

    body = (folder / _BODY).read_bytes()
    found = written(samples(TEXT, body))
    found.finals = {}
    for family in families(body.decode()):
        if not family.name.startswith("telemetry_"):
            name, _, unit = family.documentation.partition(":")[0].partition(" in ")
            for sample in family.samples:
                _add_flat(
                    found.finals, name, sample.name, dict(sample.labels), sample.value / _UNITS.get(unit, 1.0)
                )
    for name in [name for name in found.finals if name.endswith("/count")]:
        series, count = name.removesuffix("/count"), found.finals[name] * _UNITS["ms"]
        found.finals[name] = count
        found.finals[f"{series}/mean"] = found.finals.pop(f"{series}/sum") / count if count else 0.0
    return found


def _add_flat(finals: dict[str, float], name: str, sample: str, labels: dict[str, str], value: float) -> None:
    if sample.endswith("_bucket"):
        return
    percentile = labels.pop("percentile", None)
    flat = labelled(name, labels)
    part = sample.rpartition("_")[2]
    if percentile is not None:
        finals[f"{flat}/p{percentile}"] = value
    elif part in ("count", "sum", "min", "max"):
        finals[f"{flat}/{part}"] = value
    else:
        finals[flat] = value
