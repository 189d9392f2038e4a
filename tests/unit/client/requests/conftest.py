"""Requests in each way that there is: in Python, and compiled, with and without a ring for their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from telemetry import limits
from telemetry.client.native_module import RECORDER
from telemetry.client.requests import kind, kinds
from telemetry.client.requests.request import PythonRequest, Request, hold_chunks

WAYS: Final = ("python",) if RECORDER is None else ("python", "compiled", "ring")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One way that requests may be made, which is in effect."""
    monkeypatch.setattr(kind, "Request", PythonRequest if request.param == "python" else Request)
    return str(request.param)


@pytest.fixture
def program(way: str, make_program: Callable[[], Any]) -> Any:
    """A program whose requests are made in one way."""
    kinds._limits_of.cache_clear()  # its message is printed once
    made = make_program()
    if way == "ring":
        made.recorders.install(made.recorders.buffer.extend)
    return made


@pytest.fixture
def watched(way: str, make_program: Callable[[], Any]) -> Any:
    """A program that notes each call to its buffer, so its rows are not in a ring."""
    return make_program()


@pytest.fixture
def hold() -> Iterator[Callable[[int], None]]:
    """Set how many chunks of a request are held."""
    yield hold_chunks
    hold_chunks(limits.CHUNKS_HELD)
