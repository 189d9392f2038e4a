"""Bodies of requests: compression, JSON and msgpack, and errors that name the field."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from math import inf, isnan
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from starlette.requests import Request

from telemetry import limits
from telemetry.gateway import app
from telemetry.gateway.bodies import BodyRoom, converted, media_type, plain, unzipped
from telemetry.gateway.endpoint import JSON, MSGPACK, Problem
from telemetry.gateway.routes.events import Events
from telemetry.gateway.routes.history import HistoryQuery
from telemetry.gateway.routes.relax_bodies import LogMetric


def refusal(call: Any, *args: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        call(*args)
    return caught.value


# --- compression ---------------------------------------------------------------------------------


def test_the_media_type_has_no_parameters() -> None:
    """Clients often add a character set."""
    assert media_type({"content-type": "Application/JSON; charset=utf-8"}) == JSON
    assert media_type({}) == ""


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_a_plain_body_stays(encoding: str) -> None:
    """Most bodies are not compressed."""
    assert unzipped(b"abc", encoding) == b"abc"


def test_gzip_and_deflate_are_undone() -> None:
    """The two encodings that HTTP libraries use."""
    assert unzipped(gzip.compress(b"abc"), "gzip") == b"abc"
    assert unzipped(gzip.compress(b""), "GZIP ") == b""
    assert unzipped(zlib.compress(b"abc"), "deflate") == b"abc"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
def test_other_encodings_are_refused(encoding: str) -> None:
    """The message names those that work."""
    problem = refusal(unzipped, b"abc", encoding)
    assert problem.status == 415
    assert "gzip" in problem.failure.message


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    """A few kilobytes may stand for gigabytes. The largest body still passes."""
    assert len(unzipped(gzip.compress(bytes(limits.GATEWAY_BODY_BYTES)), "gzip")) == limits.GATEWAY_BODY_BYTES
    assert refusal(unzipped, gzip.compress(bytes(limits.GATEWAY_BODY_BYTES + 1)), "gzip").status == 413
    assert refusal(unzipped, gzip.compress(bytes(40 * limits.GATEWAY_BODY_BYTES), 9), "gzip").status == 413


@pytest.mark.parametrize("cut", [1, 4, 9, 12])
def test_a_body_that_is_cut_off_is_refused(cut: int) -> None:
    """Half a batch must not count as a batch, even if it decodes."""
    problem = refusal(unzipped, gzip.compress(b"abc" * 20)[:-cut], "gzip")
    assert (problem.status, "cut off" in problem.failure.message) == (400, True)


@pytest.mark.parametrize("data", [b"abc", b"\x1f\x8b\x08\x00", b""])
def test_what_is_not_gzip_is_refused(data: bytes) -> None:
    """An empty body under a header that promises gzip is refused, too."""
    assert refusal(unzipped, data, "gzip").status == 400


def test_a_wrong_checksum_is_refused() -> None:
    """The body is damaged."""
    data = bytearray(gzip.compress(b"abc"))
    data[-8] ^= 1
    assert refusal(unzipped, bytes(data), "gzip").status == 400


# --- decoding ------------------------------------------------------------------------------------


def test_json_may_have_numbers_that_are_not_finite() -> None:
    """Python's own encoder writes them, and they must not cost the values beside them."""
    found = plain(json.dumps({"a": float("nan"), "b": inf, "c": -inf, "d": 1}).encode(), JSON)
    assert isnan(found.pop("a"))
    assert found == {"b": inf, "c": -inf, "d": 1}
    assert plain(b"[1e400]", JSON) == [inf]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": 1,}',
        b"[1] 2",
        b"[NaN",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'["\\ud800", NaN]',
        b'{"\\udfff": 1}',
        b"[" * 100_000,
        b"9" * 5_000,
    ],
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    """Half a surrogate pair is no text: it could not be stored."""
    problem = refusal(plain, data, JSON)
    assert problem.status == 400
    assert "not valid JSON" in problem.failure.message


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x91", b"\x01\x01", b"\xa1\xff", b"\x91" * 100_000, b"\x81\x81\x01\x01\x01"]
)
def test_what_is_not_msgpack_is_refused(data: bytes) -> None:
    """Cut off, too deep, followed by something else, or with keys that can't be keys."""
    problem = refusal(plain, data, MSGPACK)
    assert problem.status == 400
    assert "not valid msgpack" in problem.failure.message


@pytest.mark.parametrize("value", [None, 5, "x", [1, {"a": inf}], {"events": []}])
def test_msgpack_is_decoded(value: Any) -> None:
    """Bodies of msgpack are decoded to the same plain values as those of JSON."""
    assert plain(msgspec.msgpack.encode(value), MSGPACK) == value


# --- fields --------------------------------------------------------------------------------------


class Item(Struct):
    """One item of a batch."""

    numbers: dict[str, float]


class Batch(Struct):
    """A body with everything in which a field can be."""

    step: int
    items: list[Item] = []
    deep: dict[str, dict[str, int]] = {}


@pytest.mark.parametrize(
    ("body", "path", "reason"),
    [
        (5, [], "Expected `object`, got `int`"),
        ({}, [], "required field `step`"),
        ({"step": 1.5}, ["step"], "Expected `int`, got `float`"),
        ({"step": "1"}, ["step"], "Expected `int`, got `str`"),
        ({"step": 1, "items": {}}, ["items"], "Expected `array`"),
        ({"step": 1, "items": [{"numbers": {}}, 3]}, ["items", 1], "got `int`"),
        ({"step": 1, "items": [{"numbers": {}}, {}]}, ["items", 1], "required field `numbers`"),
        (
            {"step": 1, "items": [{"numbers": {"a": 1, "b/c": "x", "d": 2}}]},
            ["items", 0, "numbers", "b/c"],
            "`str`",
        ),
        (
            {"step": 1, "items": [{"numbers": {"a": 1}}, {"numbers": {"loss": None}}]},
            ["items", 1, "numbers", "loss"],
            "null",
        ),
        ({"step": 1, "deep": {"a": {"x": 1}, "b.c": {"y": 2, "z": "no"}}}, ["deep", "b.c", "z"], "`str`"),
        ({"step": 1, "deep": {"a": {}, "b": 1, "c": {}}}, ["deep", "b"], "Expected `object`"),
        ({"step": 1, "deep": {7: {}}}, ["deep"], "a key of the map: Expected `str`, got `int`"),
    ],
)
def test_an_error_names_the_field(body: Any, path: list[str | int], reason: str) -> None:
    """An error names the field with the index in a list and the key in a map."""
    problem = refusal(converted, body, Batch, "body")
    [detail] = problem.failure.detail
    assert problem.status == 422
    assert detail.loc == ["body", *path]
    assert reason in detail.msg
    assert problem.failure.message.startswith(".".join(map(str, detail.loc)) + ": ")


def test_a_whole_number_is_an_integer() -> None:
    """JSON has one kind of number, and some programs write 3.0 for 3. Other fractions stay mistakes."""
    found = converted({"step": 3.0, "items": [{"numbers": {"a": 0.5}}], "deep": {"a": {"x": -2.0}}}, Batch, "body")
    assert (found.step, type(found.step), found.items[0].numbers, found.deep) == (
        3,
        int,
        {"a": 0.5},
        {"a": {"x": -2}},
    )
    assert (
        refusal(converted, {"step": 3.0, "deep": {"a": {"x": 2.5}}}, Batch, "body").failure.detail[0].loc[-1] == "x"
    )
    for step in (3.5, 1e300, inf, float("nan")):
        assert refusal(converted, {"step": step}, Batch, "body").failure.detail[0].loc == ["body", "step"]


def test_the_key_is_found_in_a_large_map() -> None:
    """The wrong key is found in maps of all sizes."""
    for count in (1, 2, 3, 1_000):
        for bad in {0, count // 2, count - 1}:
            numbers: dict[str, object] = {f"n{number}": float(number) for number in range(count)}
            numbers[f"n{bad}"] = []
            [detail] = refusal(
                converted, {"step": 1, "items": [{"numbers": numbers}]}, Batch, "body"
            ).failure.detail
            assert detail.loc == ["body", "items", 0, "numbers", f"n{bad}"]


def test_an_error_in_a_batch_of_events_names_the_event() -> None:
    """The path has its position and its field."""
    events: list[dict[str, object]] = [{"type": "count", "name": "n"}] * 5
    events[3] = {"type": "sample", "name": "s", "value": "fast"}
    problem = refusal(converted, {"events": events}, Events, "body")
    assert problem.failure.message.startswith("body.events.3.value: ")
    events[3] = {"type": "step", "step": 1, "values": {"loss": 1.0, "lr": "x"}}
    assert refusal(converted, {"events": events}, Events, "body").failure.detail[0].loc[-2:] == ["values", "lr"]
    events[3] = {"type": "count", "name": "n", "valeu": 3}
    assert "valeu" in refusal(converted, {"events": events}, Events, "body").failure.message


@pytest.mark.parametrize("event", [{"type": "counter"}, {"type": 3}, {"name": "n"}])
def test_an_event_of_no_known_type_is_told_the_types(event: dict[str, object]) -> None:
    """The error lists the types, whether the type is misspelt, of another kind, or missing."""
    problem = refusal(converted, {"events": [{"type": "count", "name": "n"}, event]}, Events, "body")
    kinds = "count, sample, gauge, expect, mark, params, step, end_step, span, text, artifact"
    assert problem.failure.message.startswith("body.events.1")
    assert problem.failure.message.endswith(f": use one of {kinds}")
    assert problem.failure.detail[0].msg.endswith(kinds)


def test_a_choice_of_values_is_named() -> None:
    """The error names the choice of values, for example of a query. Other fields have no such list."""
    assert refusal(converted, {"level_s": "7"}, HistoryQuery, "query").failure.message.endswith(
        ": use one of 0, 1, 10, 60"
    )
    assert "one of" not in refusal(converted, {"start_ns": "x"}, HistoryQuery, "query").failure.message


def test_values_of_a_query_are_texts() -> None:
    """The texts of a query become the numbers that the query has."""
    assert converted({"start_ns": "12", "level_s": "10"}, HistoryQuery, "query").start_ns == 12
    for name, value in (("start_ns", "-1"), ("start_ns", "x"), ("level_s", "7"), ("end_ns", str(1 << 63))):
        problem = refusal(converted, {name: value}, HistoryQuery, "query")
        assert (problem.status, problem.failure.detail[0].loc) == (422, ["query", name])


# --- room ----------------------------------------------------------------------------------------


def test_a_number_beside_deep_lists_is_refused() -> None:
    """The step 3.0 is an integer, but the lists are too deep to be searched for others."""
    deep = plain(b'{"step": 3.0, "metric_name": "x", "metric_value": ' + b"[" * 900 + b"]" * 900 + b"}", JSON)
    assert refusal(converted, deep, LogMetric, "body").status == 422


def test_all_bodies_together_are_bounded() -> None:
    """The memory that a request has taken is free again after it, also if the request failed."""
    room = BodyRoom()
    with room.share() as take:
        take(limits.GATEWAY_BODIES_BYTES - 10)
        with room.share() as other:
            other(10)
            found = refusal(other, 1)
            assert (found.status, found.headers["Retry-After"]) == (503, "1")
            assert "nothing was recorded" in found.failure.message
        take(10)
    with room.share() as take:
        take(limits.GATEWAY_BODIES_BYTES)


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of an endless body is free again, and the client learns why."""
    monkeypatch.setattr(limits, "GATEWAY_BODY_S", 0.05)
    parts = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Any:
        return parts.pop() if parts else await asyncio.Event().wait()

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(Problem) as caught:
        asyncio.run(app._read(request, lambda size: None))
    assert (caught.value.status, caught.value.headers) == (408, {"Connection": "close"})
