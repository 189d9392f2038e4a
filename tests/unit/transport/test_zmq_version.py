"""Tests of the version that the ZeroMQ library reports."""

from __future__ import annotations

from telemetry.transport.sockets import zmq_facts


def test_versions_are_numbers_with_dots() -> None:
    """Versions can be compared part by part, and ipc is there on POSIX."""
    facts = zmq_facts()
    assert all(int(part) >= 0 for part in facts.libzmq.split("."))
    assert facts.pyzmq
    assert facts.ipc
