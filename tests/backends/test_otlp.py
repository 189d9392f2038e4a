"""Tests of what a receiver of OTLP gets of a run, over HTTP and over gRPC."""

from __future__ import annotations

import base64
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.backends import handing
from tests.backends.calling import Given, call
from tests.backends.otlp_receiver import Answer, HttpReceiver, grpc_receiver
from tests.backends.reading_otlp import plain, points, read_back, requests, spans

from telemetry.backends.items import Item, Span, Step

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
STEPS = 10_000


@pytest.fixture(params=["http", "grpc"])
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Start a receiver and yield the text for `--to`; requests are kept in `tmp_path / "got"`."""
    with ExitStack() as last:
        if request.param == "grpc":
            endpoint = last.enter_context(grpc_receiver(tmp_path / "got"))
        else:
            endpoint = last.enter_context(HttpReceiver(tmp_path / "got")).endpoint
        yield f"otlp:endpoint={endpoint},protocol={request.param}"


def test_everything_is_read_back(receiver: str, tmp_path: Path) -> None:
    """10,000 steps of 20 scalars, 10 series and settings: every step once, right value, right step, right time."""
    words = [sys.executable, "-m", "tests.backends.handing", receiver, str(tmp_path / "w"), str(STEPS)]
    (tmp_path / "w").mkdir()
    subprocess.run(words, cwd=ROOT, check=True, timeout=100)
    found = read_back(tmp_path / "got")
    assert found.counts == {"step": STEPS * handing.SCALARS + 2, "reading": handing.READINGS, "span": 0}
    assert len(found.steps) == STEPS + 1
    for step in range(STEPS):
        wanted = {f"train/v{number}": handing.value(step, number) for number in range(handing.SCALARS)}
        assert found.steps["train", step] == wanted, step
    assert found.steps["eval", 7]["eval/λ"] == 0.5
    assert math.isnan(found.steps["eval", 7]["eval/nan"])
    assert found.params == {"lr": "0.25", "layers": "4", "opt": "adam", "warm": "True", "none": "null"}
    assert found.finals["latency9{route=/a}/p50"] == 12.0
    assert found.finals["latency0{route=/a}/count"] == 8.0
    first = next(got for got in points(tmp_path / "got") if got.labels.get("step") == 17)
    assert first.time_ns == handing.STARTED_NS + 17 * 10**7


def step(number: int) -> Step:
    return Step(key=f"r{number}", time_ns=number, axis="train", step=number, values={"loss": number / 2})


def span(number: int) -> Span:
    return Span(key=f"s{number}", time_ns=number, end_ns=number + 5, name="load", track="gpu", labels={"a": "b"})


def test_spans_become_one_trace(receiver: str, tmp_path: Path) -> None:
    """The spans have the run as their parent, and another process gives the same spans the same ids."""
    items: list[Item] = [span(1), span(2)]
    one = Given(receiver, tmp_path / "a", [items])
    again = Given(receiver, tmp_path / "b", [items], state={})
    first, second = call(one, again)
    assert not any([*first.raised, *second.raised])
    assert first.state["spans"]
    found = spans(tmp_path / "got")
    assert len(found) == 6
    assert [one.SerializeToString() for one in found[:3]] == [one.SerializeToString() for one in found[3:]]
    load, _, root = found[:3]
    assert len({one.span_id for one in found}) == 3
    assert len({one.trace_id for one in found}) == 1
    assert (load.parent_span_id, root.parent_span_id) == (root.span_id, b"")
    assert plain(load.attributes) == {"a": "b", "telemetry.track": "gpu"}
    assert (load.start_time_unix_nano, load.end_time_unix_nano) == (1, 6)


def test_what_a_receiver_rejects_is_counted(tmp_path: Path) -> None:
    """A part of a request, a request, one that is too large in one piece; what passes is tried again and no number
    is there twice."""
    partial = b"\x0a\x0b\x08\x03\x12\x07too old"
    with HttpReceiver(tmp_path / "got") as there:
        to = f"otlp:endpoint={there.endpoint}"
        there.answers = [Answer(), Answer(body=partial)]
        (called,) = call(Given(to, tmp_path / "a", [[step(1)]]))
        assert called.raised == ["", "", ""]
        there.answers = [Answer(), Answer(400, {"Content-Type": "text/plain"}, b"no such thing"), Answer()]
        (called,) = call(Given(to, tmp_path / "b", [[step(2)], [step(3)]]))
        assert called.raised[1].startswith("Refused: 1 item: http_400"), called
        there.answers = [Answer(), Answer(503, {"Retry-After": "7"}), Answer(502), Answer(401)]
        (called,) = call(Given(to, tmp_path / "c", [[step(4)]] * 4))
        assert [one.split(":")[0] for one in called.raised] == ["", *["Unavailable"] * 3, "", ""], called
        there.largest = 700
        (called,) = call(Given(to, tmp_path / "d", [[step(number) for number in range(10, 30)]]))
        assert called.raised == ["", "", ""]
        there.largest = 10
        (called,) = call(Given(to, tmp_path / "e", [[step(40)]]))
        assert "http_413" in called.raised[1]
    found = read_back(tmp_path / "got")
    assert sorted(found.steps) == [("train", number) for number in (1, 3, 4, *range(10, 30))]
    assert found.counts["step"] == len(found.steps)


def test_who_can_not_begin_is_told_why(tmp_path: Path) -> None:
    """A writer reports a receiver that is absent, refuses it, or has moved. Headers come from the environment."""
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b", "OTEL_SERVICE_NAME": "mine"}
    with HttpReceiver(tmp_path / "got") as there:
        there.answers = [Answer(401), Answer(302, {"Location": there.endpoint})]
        to = f"otlp:endpoint={there.endpoint}"
        refused, moved, absent, taken = call(
            Given(to, tmp_path / "a"),
            Given(to, tmp_path / "b", final=False),
            Given(f"{to}/other", tmp_path / "c"),
            Given(to, tmp_path / "d", [[step(1)]]),
            environment=environment,
        )
        assert "NotConfigured" in refused.raised[0]
        assert "OTEL_EXPORTER_OTLP_HEADERS" in refused.raised[0]
        assert "no receiver for metrics" in absent.raised[0]
        assert taken.raised == ["", "", ""]
        assert {headers["X-Key"] for headers in there.headers} == {"a b"}
        (call_away,) = call(Given("otlp:endpoint=http://127.0.0.1:9", tmp_path / "e"))
        assert call_away.raised[0].startswith("Unavailable")
    request = list(requests(tmp_path / "got", "metrics"))[-1]
    resource = plain(request.resource_metrics[0].resource.attributes)
    assert resource["service.name"] == "mine"
    assert not moved.raised[0]


def test_codes_of_grpc_are_understood(tmp_path: Path) -> None:
    """The codes of gRPC decide what passes, what is refused, and when the writer tries again."""
    retry = _retry_info(3)
    codes: list[dict[str, Any]] = [
        {},
        {"code": "UNAVAILABLE", "details": "later", "status": retry},
        {"code": "RESOURCE_EXHAUSTED", "status": retry},
        {"code": "RESOURCE_EXHAUSTED", "details": "message larger than max"},
        {"code": "INVALID_ARGUMENT", "details": "no"},
        {"code": "UNAUTHENTICATED"},
    ]
    with grpc_receiver(tmp_path / "got") as endpoint:
        to = f"otlp:endpoint={endpoint},protocol=grpc"
        given = [
            Given(to, tmp_path / "a", [[step(1)]] * 3),
            Given(to, tmp_path / "a", [[step(2)]]),
            Given(to, tmp_path / "a", [[step(3)]] * 2),
            Given(to, tmp_path / "a", [[step(4)], [step(5)]]),
        ]
        for place in (4, 6, 8):  # of requests that ask whether anybody is there
            codes.insert(place, {})
        (tmp_path / "got" / "answers.json").write_text(json.dumps(codes))
        found = call(*given, environment={"OTEL_EXPORTER_OTLP_HEADERS": "X-Key=1"})
        kinds = [[one.split(":")[0] for one in called.raised] for called in found]
        assert kinds == [
            ["", "Unavailable", "Unavailable", "Refused", ""],
            ["", "Refused", ""],
            ["", "Unavailable", "", ""],
            ["", "", "", ""],
        ], found
    assert sorted(read_back(tmp_path / "got").steps) == [("train", number) for number in (3, 4, 5)]
    metadata = json.loads((tmp_path / "got" / "metadata.json").read_text())
    assert metadata["x-key"] == "1"
    (absent,) = call(Given(to, tmp_path / "b"))
    assert absent.raised[0].startswith("Unavailable")


def _retry_info(seconds: int) -> str:
    """A google.rpc.Status that holds a RetryInfo, base64."""
    duration = bytes((0x0A, 2, 0x08, seconds))
    url = b"type.googleapis.com/google.rpc.RetryInfo"
    packed = bytes((0x0A, len(url))) + url + bytes((0x12, len(duration))) + duration
    return base64.b64encode(b"\x08\x0e" + bytes((0x1A, len(packed))) + packed).decode()
