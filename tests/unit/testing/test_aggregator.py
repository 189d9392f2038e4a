"""The aggregator that other tests lean on."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.errors import ProtocolError
from telemetry.testing.aggregator import FakeAggregator
from telemetry.transport import ControlClient, hello, subscribe
from telemetry.wire.control import Barrier, GetStatus, Status, Stop


def test_it_speaks_control_and_publishes(short_dir: Path) -> None:
    """Hello, status, stop; what it doesn't know is an error."""
    with FakeAggregator(short_dir) as aggregator, ControlClient(aggregator.endpoint) as client:
        assert hello(aggregator.endpoint).epoch == "e1"
        status = client.request(GetStatus(), 5.0)
        assert isinstance(status, Status)
        with pytest.raises(ProtocolError):
            client.request(Barrier(producer="p", batches=1), 5.0)
        with subscribe(aggregator.endpoint, timeout_s=10.0) as snapshots:
            client.request(Stop(), 5.0)
            assert [snapshot.state for snapshot in snapshots][-1] == "COMPLETE"
        assert (aggregator.received, aggregator.values("x")) == (0, [])
