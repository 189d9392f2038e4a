"""What the ZeroMQ library on this machine is and can do."""

from __future__ import annotations

from typing import NamedTuple

import zmq


class ZmqFacts(NamedTuple):
    pyzmq: str
    libzmq: str
    ipc: bool
    curve: bool


def zmq_facts() -> ZmqFacts:
    """Versions and capabilities; opens no socket."""
    return ZmqFacts(zmq.pyzmq_version(), zmq.zmq_version(), bool(zmq.has("ipc")), bool(zmq.has("curve")))
