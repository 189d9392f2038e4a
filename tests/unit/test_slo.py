"""Limits for a request: their grammar, and when a request meets them."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.common import slo
from telemetry.errors import UsageError

MS = 10**6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttft:200 tpot:50", {"ttft": 200 * MS, "tpot": 50 * MS}),
        ("tpot:50,ttft:200", {"ttft": 200 * MS, "tpot": 50 * MS}),
        (" ttft:0.2s , e2el:5000 ", {"ttft": 200 * MS, "e2el": 5_000 * MS}),
        (["ttft:200ms", "tpot:50us"], {"ttft": 200 * MS, "tpot": 50_000}),
        ("latency:1s", {"e2el": 1_000 * MS}),
        ("e2e:1s", {"e2el": 1_000 * MS}),
        ("request_latency:1s", {"e2el": 1_000 * MS}),
        ("time_to_first_token:1", {"ttft": MS}),
        ("time-per-output-token:1 Gap:2ns", {"tpot": MS, "gap": 2}),
        ("inter_token_latency:1", {"tpot": MS}),
        ("tps:20", {"tpot": 50 * MS}),
        ("tps:30", {"tpot": 33_333_333}),
        ("corrected:1min", {"corrected": 60_000 * MS}),
        ("ttft:0", {"ttft": 0}),
        ("ttft:.5", {"ttft": MS // 2}),
    ],
)
def test_limits_that_can_be_written(text: Any, expected: dict[str, int]) -> None:
    """Pairs in any order come out in the same order, in whole nanoseconds, and can be written and read again."""
    limits = slo.parse(text)
    assert limits == expected
    assert list(limits) == [key for key in slo.KEYS if key in limits]
    assert slo.parse(slo.to_text(limits)) == limits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tttf:200", "did you mean 'ttft'"),
        ("toekn:200", "keys are ttft, tpot, e2el, gap, corrected and tps"),
        ("itl:50", "write tpot for the mean time per token of a request, gap for its largest gap"),
        ("ttft:200ns5", "is not a limit"),
        ("ttft:-5", "is not a limit"),
        ("ttft:1e3", "is not a limit"),
        ("tps:20ms", "write a number such as 20, in tokens per second"),
        ("tps:0", "is not a limit"),
        ("ttft:90000s", "longer than a day"),
        ("ttft", "write KEY:LIMIT pairs"),
        ("ttft:", "write KEY:LIMIT pairs"),
        (":200", "write KEY:LIMIT pairs"),
        ("ttft:1 time_to_first_token:2", "ttft has two limits"),
        ("tpot:50 tps:20", "tpot has two limits"),
        ("", "there are no limits"),
        (",", "there are no limits"),
        ([], "there are no limits"),
        (200, "limits are text"),
        ({"ttft": 200}, "limits are text"),
    ],
)
def test_limits_that_cannot_be_read(text: Any, message: str) -> None:
    """The message names the nearest key, or how limits are written."""
    with pytest.raises(UsageError, match=message):
        slo.parse(text)


def test_limits_by_kind_of_request() -> None:
    """The limits of a kind replace those of every kind, key by key."""
    by_kind = slo.parse_by_kind(["ttft:200", "tpot:50", "chat=ttft:300, gap:1s"])
    assert by_kind == {"": {"ttft": 200 * MS, "tpot": 50 * MS}, "chat": {"ttft": 300 * MS, "gap": 1_000 * MS}}
    assert slo.for_kind(by_kind, "chat") == {"ttft": 300 * MS, "tpot": 50 * MS, "gap": 1_000 * MS}
    assert slo.for_kind(by_kind, "other") == {"ttft": 200 * MS, "tpot": 50 * MS}
    assert slo.parse_by_kind(slo.by_kind_to_text(by_kind)) == by_kind
    with pytest.raises(UsageError, match="'ttft=200' is not a limit"):
        slo.parse_by_kind("ttft=200")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft:200 tpot:50", "ttft 200 ms, tpot 50 ms"),
        ("e2el:5000", "e2el 5 s"),
        ("gap:1500us corrected:12ns", "gap 1.5 ms, corrected 12 ns"),
        ("tps:30 ttft:0", "ttft 0 ms, tpot 33.33 ms"),
        ("ttft:12345.678s e2el:1440min", "ttft 12345.68 s, e2el 86400 s"),
    ],
)
def test_limits_for_people(text: str, words: str) -> None:
    """A limit has the largest unit that keeps its number above one."""
    assert slo.describe(slo.parse(text)) == words


def judged(limits: str, **given: Any) -> dict[str, bool]:
    """A request of 1 s with its first output after 200 ms, ten more tokens and a largest gap of 90 ms."""
    request: dict[str, Any] = {
        "issued_ns": 5_000 * MS,
        "ended_ns": 6_000 * MS,
        "planned_ns": None,
        "first_ns": 5_200 * MS,
        "first_tokens": 1,
        "output_tokens": 11,
        "largest_gap_ns": 90 * MS,
    }
    return slo.met(slo.parse(limits), **request | given)


def test_a_request_at_its_limits_meets_them() -> None:
    """One nanosecond less and it does not."""
    assert all(judged("ttft:200 tpot:80 e2el:1000 gap:90 corrected:1000").values())
    for pair in ("ttft:199999999ns", "tpot:79999999ns", "e2el:999999999ns", "gap:89999999ns"):
        assert list(judged(pair).values()) == [False]


@pytest.mark.parametrize(
    ("limits", "given", "expected"),
    [
        ("ttft:200 tpot:1 gap:1", {"first_ns": None, "largest_gap_ns": None}, [False, True, True]),
        ("tpot:1", {"output_tokens": 1, "largest_gap_ns": None}, [True]),
        ("tpot:1", {"output_tokens": 0.0, "largest_gap_ns": None}, [True]),
        ("tpot:1", {"output_tokens": None, "largest_gap_ns": None}, [True]),
        ("tpot:10s", {"output_tokens": None}, [False]),
        ("tpot:80", {"first_tokens": None}, [True]),
        ("tpot:80", {"first_tokens": 2}, [False]),
        ("tpot:320", {"output_tokens": 3.5}, [True]),
        ("tpot:319", {"output_tokens": 3.5}, [False]),
        ("corrected:1000", {"planned_ns": 4_999 * MS}, [False]),
        ("corrected:1001", {"planned_ns": 4_999 * MS}, [True]),
        ("corrected:1000", {"planned_ns": 5_500 * MS}, [True]),
    ],
)
def test_requests_that_lack_something(limits: str, given: dict[str, Any], expected: list[bool]) -> None:
    """A request without output fails `ttft`, and several pieces of unknown tokens fail `tpot`.

    A request of one piece meets `tpot` and `gap`.
    """
    assert list(judged(limits, **given).values()) == expected
