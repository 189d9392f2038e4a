"""Requests within MLflow's bounds."""

from __future__ import annotations

import json

from telemetry.backends.mlflow.backend import Batch, MLflowPoint


def test_a_request_is_full_in_time() -> None:
    """A request is full at its bound of metrics, of params, of tags, or of bytes as JSON writes them."""
    many, params, tags, wide = Batch(), Batch(), Batch(), Batch()
    assert not many
    for number in range(999):
        many.put(MLflowPoint("k", 1.0, 0, number))
    assert not many.full
    many.tag("a", "b")
    for number in range(100):
        assert not params.full
        assert not tags.full
        params.param(f"k{number}", "v")
        tags.tag(f"k{number}", "v")
    assert many.full
    assert params.full
    assert tags.full
    while not wide.full:
        wide.put(MLflowPoint("ü" * 250, 1.0, 0, len(wide.points)))
    assert len(json.dumps([point._asdict() for point in wide.points])) + 100_000 < 1_000_000
