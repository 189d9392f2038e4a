"""Instruments and kinds of requests as arguments of another process."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from telemetry.client.process import PROCESS
from telemetry.client.requests.kinds import Kinds


def test_an_instrument_travels_to_another_process_as_itself() -> None:
    """Pickled, as an argument of a worker, it becomes the instrument of the same name there."""
    made = PROCESS.instrument("series", "test.pickled", "ms", {"a": "b"}, digits=2, low=0.5, high=9.0)
    assert pickle.loads(pickle.dumps(made)) is made
    assert copy.deepcopy(made) is made


def test_a_kind_of_request_is_the_same_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of request is pickled by its name, as an instrument is."""
    monkeypatch.setattr(PROCESS, "kinds", Kinds(PROCESS))  # later runs of this process would declare the condition
    made = PROCESS.requests("pickled", {"a": 1}, 5.0, "p99 known")
    assert pickle.loads(pickle.dumps(made)) is made


def test_the_receiver_need_not_have_imported_anything() -> None:
    """Reading the pickle brings what it needs."""
    data = pickle.dumps(PROCESS.instrument("counter", "test.travels", "", {"a": "b"}))
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().strip() == "<Counter 'test.travels', unit='', a='b'>"
