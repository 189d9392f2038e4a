"""Tests that encoded histograms give the values and counts that HdrHistogram's own package reads."""

from __future__ import annotations

import base64
import random
import struct
import zlib

import pytest
from hdrh.histogram import HdrHistogram

from telemetry.compat.importers.hdr_payload import recorded


def encoded(histogram: HdrHistogram) -> str:
    text: bytes = histogram.encode()
    return text.decode()


@pytest.mark.parametrize("seed", range(20))
def test_values_and_counts_are_those_of_the_package(seed: int) -> None:
    """Whatever the digits, the lowest value and the spread."""
    randomness = random.Random(seed)
    lowest, digits = randomness.choice([1, 7, 1_000]), randomness.randint(1, 4)
    histogram = HdrHistogram(lowest, 10**9, digits)
    for _ in range(randomness.randint(1, 300)):
        histogram.record_value(int(randomness.lognormvariate(10, 3)) % 10**9, randomness.randint(1, 50))
    items = histogram.get_recorded_iterator()
    expected = [(item.value_iterated_to, item.count_added_in_this_iter_step) for item in items]
    assert list(recorded(encoded(histogram))) == expected


def test_a_small_text_that_unpacks_to_a_gigabyte_is_refused() -> None:
    """Memory grows with the file, not with what the file asks for."""
    payload = zlib.compress(struct.pack(">IIIIqqd", 0x1C849313, 1 << 30, 0, 3, 1, 1 << 60, 1.0) + bytes(1 << 24))
    text = base64.b64encode(struct.pack(">II", 0x1C849314, len(payload)) + payload).decode()
    with pytest.raises(ValueError, match="incomplete or too large"):
        list(recorded(text))


@pytest.mark.parametrize("text", ["", "SGlzdA==", "####", base64.b64encode(bytes(40)).decode()])
def test_a_damaged_text_is_refused(text: str) -> None:
    """What is no histogram has no values."""
    with pytest.raises(ValueError, match=r"histogram|base64|padding|Only"):
        list(recorded(text))
