"""Instruments without a run at hand, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import telemetry
from telemetry.client import Counter, Gauge, Series, module_level
from telemetry.client.process import PROCESS
from telemetry.client.recording import Recording
from telemetry.client.requests.kinds import Kinds
from telemetry.errors import InstrumentError, UsageError

HEAVY = ["numpy", "asyncio", "textual", "rich", "hdrh", "multiprocessing", "logging", "tomllib"]


def test_each_kind_can_be_made_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instruments without an endpoint are null objects with the same API."""
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    counter, gauge = (
        module_level.counter("module.c", "requests", host="a"),
        module_level.gauge("module.g", unit="B"),
    )
    series = module_level.series("module.s", unit="ms", digits=4, low=0.5, high=7.0, rank=0)
    assert [type(made) for made in (counter, gauge, series)] == [Counter, Gauge, Series]
    counter.add()
    gauge.set(1)
    series.record(2)
    with series.time():
        pass
    assert module_level.counter("module.c", "requests", host="a") is counter


def test_a_label_may_be_called_name() -> None:
    """The instrument's own name is positional."""
    assert dict(module_level.counter("module.named", name="x").labels) == {"name": "x"}


def test_a_wrong_definition_raises_also_without_a_run() -> None:
    """Errors show in development, not in production."""
    module_level.gauge("module.kind")
    with pytest.raises(InstrumentError):
        module_level.counter("module.kind")


@pytest.mark.parametrize("module", ["telemetry", "telemetry.client"])
def test_importing_is_light(module: str) -> None:
    """A program that records pays for nothing else."""
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_requests_need_no_run_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a tracking window; without an endpoint nothing is kept."""
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    monkeypatch.setattr(PROCESS, "kinds", Kinds(PROCESS))  # later runs of this process would declare the condition
    made = module_level.requests("module.llm", expire_s=5, stop_when="p99 known", host="a")
    assert module_level.requests("module.llm", host="a") is made
    with module_level.tracking("w"), module_level.request("module.llm", key="k") as one:
        one.first()
    assert (made.in_flight, made.enough) == (0, False)
    with pytest.raises(UsageError, match="issued with 'host'"):
        module_level.request("module.llm", host="a")
    assert module_level.request("module.llm", key=[]).first(at_ns=3) == 3


def test_records_need_no_run_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records without an endpoint vanish. An impossible declaration raises nevertheless."""
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    telemetry.axis("train", reduce="sum")
    telemetry.log({"loss": 0.5}, step=1, axis="train")
    telemetry.end_step(1, axis="train")
    telemetry.clear_step(1, axis="train")
    telemetry.text("t", "hello")
    telemetry.table("t", ["a"], [[1]], step=1)
    telemetry.mark("warm")
    telemetry.params({"lr": 0.1})
    telemetry.expect("n", 10)
    telemetry.histogram("h", [1.0, 2.0])
    telemetry.image("i", "a.png")
    telemetry.artifact("a", "model.pt", kind="model")
    telemetry.span_at("s", 1, 2)
    with telemetry.span("s", "gpu", rank=1):
        pass
    with pytest.raises(InstrumentError):
        telemetry.axis("")


def test_every_call_of_a_run_is_a_function_of_the_package() -> None:
    """Every call of a run is a package function of the same name, but for calls about one run alone."""
    of_one_run = {"finish", "finished", "owner", "report", "live_report"}
    calls = {name for name in dir(telemetry.Run) if not name.startswith("_")} - of_one_run
    assert calls == {name for name in vars(module_level) if name in calls}
    assert all(callable(getattr(telemetry, name)) for name in calls)


def test_every_call_has_an_example() -> None:
    """Help in an editor or a notebook is enough to use it."""
    calls = [name for owner in (Recording, telemetry.Run) for name in vars(owner) if not name.startswith("_")]
    public = [getattr(telemetry.Run, name) for name in calls if callable(getattr(telemetry.Run, name))]
    public += [telemetry.Report.save, telemetry.Report.to_pandas, telemetry.Report.to_polars]
    public += [telemetry.start, telemetry.Run, telemetry.Report]
    assert [
        one.__qualname__ for one in public if "\n\n" not in one.__doc__ or "Example:\n" not in one.__doc__
    ] == []
