"""Version and capabilities of the ZeroMQ library on this machine."""

from __future__ import annotations

from typing import NamedTuple

import zmq


class ZmqFacts(NamedTuple):
    pyzmq: str
    libzmq: str
    ipc: bool
    curve: bool


def zmq_facts() -> ZmqFacts:
    """Return versions and capabilities, without opening a socket."""
    return ZmqFacts(zmq.pyzmq_version(), zmq.zmq_version(), bool(zmq.has("ipc")), bool(zmq.has("curve")))
