"""Tests of the meaning of answers over gRPC. Calls of a real server are in tests/backends."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.otlp import grpc
from telemetry.backends.otlp.receiver import KeyRefused, NotTaken, OtlpOptions, target_of


def meant(code: str, details: bytes | None = None) -> Any:
    """Return the error that stands for a failed call of the given code and details."""
    trailing = [("other", "x"), ("grpc-status-details-bin", details)] if details is not None else None
    error = SimpleNamespace(
        code=lambda: SimpleNamespace(name=code), details=lambda: "why", trailing_metadata=lambda: trailing
    )
    return grpc._meant(error)


def status(seconds: int) -> bytes:
    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds = seconds
    packed = AnyMessage()
    packed.Pack(info)
    return bytes(status_pb2.Status(details=[packed]).SerializeToString())


@pytest.mark.parametrize(
    ("code", "kind", "word"),
    [
        ("UNAVAILABLE", Unavailable, None),
        ("DEADLINE_EXCEEDED", Unavailable, None),
        ("UNAUTHENTICATED", KeyRefused, None),
        ("INVALID_ARGUMENT", NotTaken, "grpc_invalid_argument"),
        ("UNIMPLEMENTED", NotTaken, "grpc_unimplemented"),
        ("RESOURCE_EXHAUSTED", NotTaken, "grpc_resource_exhausted"),
    ],
)
def test_codes_mean_what_they_say(code: str, kind: type[Exception], word: str | None) -> None:
    """A code of gRPC means an error that may pass, a refused key, or a request that is not taken."""
    found = meant(code)
    assert type(found) is kind
    assert str(found) == f"gRPC {code}: why"
    assert getattr(found, "reason", None) == word


def test_when_to_come_again() -> None:
    """A call that is told when to come again is not refused. Details that can't be read tell nothing."""
    exhausted = meant("RESOURCE_EXHAUSTED", status(3))
    assert (type(exhausted), exhausted.after_s) == (Unavailable, 3.0)
    assert meant("UNAVAILABLE", status(4)).after_s == 4.0
    assert meant("UNAVAILABLE", b"\xff\xff").after_s == 0.0
    assert meant("RESOURCE_EXHAUSTED", b"").too_large


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is an error whose hint names the extra that installs it."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(NotConfigured, match="grpcio is not installed") as told:
        grpc.GrpcSender(target_of(OtlpOptions(protocol="grpc"), {}))
    assert "telemetryd[otlp]" in told.value.hint


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ImportError('cygrpc: no such symbol')", "can't import grpcio: cygrpc: no such symbol"),
        ("import what_nobody_has", "what_nobody_has is not installed"),
    ],
)
def test_a_package_that_is_broken_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    """An error of the import of a broken package has the words of that import."""
    (tmp_path / "grpc.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "grpc", raising=False)
    with pytest.raises(NotConfigured, match=words):
        grpc.GrpcSender(target_of(OtlpOptions(protocol="grpc"), {}))
