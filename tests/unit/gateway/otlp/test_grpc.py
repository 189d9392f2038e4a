"""Connections of OTLP over gRPC: bounds for clients that send nothing. Real sockets, no run."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry import limits
from telemetry.gateway.options import GatewayOptions
from telemetry.gateway.otlp import grpc as receiver

grpc = pytest.importorskip("grpc")
TOKEN = "0123456789abcdef"
DEADLINE_S = 30.0


async def code_beside_silent_clients(number: int, timeout_s: float) -> Any:
    """Return the code of the answer to a client that comes after `number` silent ones."""
    keeper = receiver.reserve("127.0.0.1", 0)
    place = receiver.place_of(*keeper.getsockname())
    gateway: Any = SimpleNamespace(options=GatewayOptions(endpoint="", token=TOKEN))
    server = receiver.GrpcReceiver(gateway, place, SimpleNamespace)  # type: ignore[arg-type]
    await server.start()
    silent = [socket.create_connection(keeper.getsockname()) for _ in range(number)]
    async with grpc.aio.insecure_channel(place) as channel:
        call = channel.unary_unary(next(iter(receiver.SERVICES)))(b"", timeout=timeout_s, wait_for_ready=True)
        code = await call.code()
    for each in silent:
        each.close()
    await server.close()
    keeper.close()
    return code


def test_silent_clients_keep_no_client_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent clients have a part of the descriptors, and a short time to introduce themselves."""
    monkeypatch.setattr(receiver, "limit_of_descriptors", lambda: 32)
    monkeypatch.setattr(limits, "GATEWAY_HEAD_S", 0.2)
    assert asyncio.run(code_beside_silent_clients(12, DEADLINE_S)) == grpc.StatusCode.UNAUTHENTICATED


def test_silent_clients_take_a_part_of_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent clients of gRPC leave the rest of the descriptors to HTTP."""
    monkeypatch.setattr(receiver, "limit_of_descriptors", lambda: 32)
    monkeypatch.setattr(limits, "GATEWAY_HEAD_S", DEADLINE_S)
    assert asyncio.run(code_beside_silent_clients(12, 0.3)) == grpc.StatusCode.DEADLINE_EXCEEDED
