"""Limits of any request against a slow judge in fractions."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from telemetry.common import slo

TIMES = st.integers(0, 1 << 62) | st.integers(0, 50)
LIMITS = st.dictionaries(st.sampled_from(slo.KEYS), st.integers(0, 1 << 60) | st.integers(0, 20), min_size=1)
TOKENS = st.none() | st.integers(0, 1 << 53) | st.integers(0, 5) | st.floats(0, 1e15) | st.floats(0, 5)


def slow(limits: dict[str, int], times: dict[str, int | None], first: int | None, tokens: float | None) -> set[str]:
    """Keys of the limits that are met."""
    issued, ended = Fraction(times["issued"] or 0), Fraction(times["ended"] or 0)
    begun, gap = times["first"], times["gap"]
    measured: dict[str, Fraction | None] = {
        "ttft": None,
        "tpot": Fraction(0),
        "gap": Fraction(0),
        "e2el": ended - issued,
    }
    planned = issued if times["planned"] is None else Fraction(times["planned"])
    measured["corrected"] = ended - min(planned, issued)
    if gap is not None:
        measured["gap"] = Fraction(gap)
    if begun is not None:
        measured["ttft"] = begun - issued
        if tokens is None:
            measured["tpot"] = None if gap is not None else Fraction(0)
        elif (later := Fraction(tokens) - (1 if first is None else first)) > 0:
            measured["tpot"] = (ended - begun) / later
    return {key for key, limit in limits.items() if (value := measured[key]) is not None and value <= limit}


@given(
    LIMITS,
    st.fixed_dictionaries(
        {
            "issued": TIMES,
            "ended": TIMES,
            "first": st.none() | TIMES,
            "planned": st.none() | TIMES,
            "gap": st.none() | TIMES,
        }
    ),
    st.none() | st.integers(0, 1 << 32) | st.integers(0, 3),
    TOKENS,
)
def test_every_request_is_judged_as_with_fractions(
    limits: dict[str, int], times: dict[str, int | None], first: int | None, tokens: float | None
) -> None:
    """Every request is judged as with fractions, whatever its times and tokens are. So no rounding decides."""
    verdicts = slo.met(
        limits,
        issued_ns=times["issued"] or 0,
        ended_ns=times["ended"] or 0,
        planned_ns=times["planned"],
        first_ns=times["first"],
        first_tokens=first,
        output_tokens=tokens,
        largest_gap_ns=times["gap"],
    )
    assert verdicts.keys() == limits.keys()
    assert {key for key, is_met in verdicts.items() if is_met} == slow(limits, times, first, tokens)


@given(st.integers(1, 1_000), st.integers(1, 10**9), st.integers(-1, 1))
def test_a_tie_is_met_and_a_nanosecond_more_is_not(tokens: int, limit: int, beyond: int) -> None:
    """The mean time per token is never divided, so that it is not rounded."""
    ended = 7 + limit * tokens + beyond
    verdict = slo.met(
        {"tpot": limit},
        issued_ns=0,
        ended_ns=ended,
        planned_ns=None,
        first_ns=7,
        first_tokens=1,
        output_tokens=tokens + 1,
        largest_gap_ns=1,
    )
    assert verdict == {"tpot": beyond <= 0}


@given(LIMITS)
def test_limits_survive_their_text(limits: dict[str, int]) -> None:
    """Limits survive their text to the nanosecond, up to a day."""
    shorter = {key: min(limit, 86_400 * 10**9) for key, limit in limits.items()}
    assert slo.parse(slo.to_text(shorter)) == shorter
    assert slo.describe(shorter).count(",") == len(shorter) - 1
