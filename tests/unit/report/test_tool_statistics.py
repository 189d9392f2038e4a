"""Statistics of millions of values are those of numpy, and requests in pieces are those at once."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.history.second_sums import AT_ONCE
from telemetry.report.other_tools import answers as module
from telemetry.report.other_tools.answers import AnswerCollector
from telemetry.report.other_tools.statistics import deviation, linear, median
from telemetry.wire.request_log import RequestEntry


@pytest.mark.parametrize("size", [1, 7, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE + 5, 1_000_003])
def test_deviation_is_that_of_numpy(size: int) -> None:
    """`deviation` is equal to numpy's to the last bit."""
    values = np.random.default_rng(size).lognormal(3.0, 2.0, size)
    assert deviation(values) == values.std()


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_those_of_numpy(values: list[float], percentile: float) -> None:
    """Percentiles and medians are equal to numpy's, also after an earlier call reordered the values."""
    array = np.array(values)
    assert linear(array.copy(), percentile) == np.percentile(array, percentile)
    after = array.copy()
    linear(after, 99)
    assert median(after) == np.median(array)


def _entry(number: int, gaps: list[int], **fields: Any) -> RequestEntry:
    known = {"number": number, "issued_ns": 10**9, "first_ns": 10**9 + 5, "ended_ns": 10**12, "gaps_ns": gaps}
    return RequestEntry(**known | fields)


ENTRIES = st.lists(
    st.one_of(
        st.builds(_entry, st.integers(0, 9), st.lists(st.integers(-5, 1 << 33), max_size=6)),
        st.builds(_entry, st.integers(0, 9), st.lists(st.integers(0, 99), max_size=6), outcome=st.just("failed")),
        st.builds(
            _entry,
            st.integers(0, 9),
            st.lists(st.integers(1, 99), min_size=1, max_size=4),
            chunks_left_out=st.just(3),
        ),
        st.builds(
            _entry, st.integers(0, 9), st.just([]), first_ns=st.none(), output_tokens=st.sampled_from([None, 3])
        ),
    ),
    max_size=12,
)


@given(ENTRIES, st.integers(1, 9))
def test_pieces_have_all_chunks(entries: list[RequestEntry], at_once: int) -> None:
    """The pieces hold every chunk with its time, however small they are.

    A gap lies between two chunks of one request.
    """
    collector = AnswerCollector()
    times, gaps = [], []
    for entry in entries:
        collector.add(entry, 7)
        if entry.outcome != "completed":
            continue
        if entry.first_ns is None:
            times += [entry.ended_ns + 7] if entry.output_tokens else []
            continue
        own = list(accumulate(entry.gaps_ns, initial=entry.first_ns))
        if entry.chunks_left_out:
            own = [entry.first_ns, *(entry.ended_ns + at - own[-1] for at in own[1:])]
        times += [at + 7 for at in own]
        gaps += entry.gaps_ns[1:] if entry.chunks_left_out else entry.gaps_ns
    answers = collector.answers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", at_once)
        pieces = list(answers.pieces())
        assert [at for piece in pieces for at in piece.times_ns.tolist()] == times
        assert (answers.gaps_ms() * 1e6).round().tolist() == gaps
    assert [one for piece in pieces for one in range(piece.requests.start, piece.requests.stop)] == list(
        range(len(entries))
    )
    none = answers.chosen(np.zeros(len(answers), bool))
    assert (len(none), none.steps_ns.size, list(none.pieces())) == (0, 0, [])
    done = answers.chosen(answers.completed)
    assert [at for piece in done.pieces() for at in piece.times_ns.tolist()] == times
