"""Percentile keys and ranks."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.errors import UsageError
from telemetry.statistics.hdr.percentiles import parse_percentile, rank, ranks


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [
        ("50", 0, 1),
        ("50", 1, 1),
        ("50", 2, 1),
        ("50", 3, 2),
        ("100", 7, 7),
        ("99.9", 1000, 999),
        ("99.9", 1001, 1000),
        ("99.99", 10_000, 9_999),
        ("0.0000001", 5, 1),
        ("99.9", 10**18, 999 * 10**15),
    ],
)
def test_rank_is_the_ceiling(key: str, count: int, expected: int) -> None:
    """The rank is ceil(p * n) in integers, at least 1, for one count and for many."""
    ratio = parse_percentile(key)
    assert rank(ratio, count) == expected
    assert ranks([ratio], np.array([count])).tolist() == [[expected]]


def test_percentile_is_an_exact_ratio() -> None:
    """99.9 is 999 of 1000, not the float next to it."""
    assert parse_percentile("99.9") == (999, 1000)
    assert parse_percentile("100") == (100, 100)


@pytest.mark.parametrize(
    "key", ["", "0", "0.0", "100.1", "-1", "1e1", "p50", " 50", "50.", ".5", "٥٠", "50.12345678"]
)
def test_other_keys_are_refused(key: str) -> None:
    """A key that is not a decimal number in (0, 100] is a usage error."""
    with pytest.raises(UsageError, match="percentile"):
        parse_percentile(key)
