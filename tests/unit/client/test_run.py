"""`start` and the Run, attached to an aggregator in a thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.client import run as run_module
from telemetry.client import start
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.requests.kinds import Kinds
from telemetry.client.run import Run
from telemetry.errors import ConfigError, EndpointError, InstrumentError, UsageError
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Expect, Mark, Params


@pytest.fixture
def aggregator(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAggregator]:
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as made:
        monkeypatch.setenv(ENDPOINT_VARIABLE, made.endpoint)
        yield made
        run = run_module._STARTER.run
        if run is not None:
            run.finish(5.0)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Each test begins and ends without a run."""
    yield
    run_module._STARTER.run = None
    PROCESS.finish(0.1)
    PROCESS.reopen()
    PROCESS._late.take()


def test_start_is_idempotent(aggregator: FakeAggregator, caplog: pytest.LogCaptureFixture) -> None:
    """`start` returns the open run, and warns a caller that asked for another name."""
    run = start("one")
    assert start("one", policy="block") is run
    assert start() is run
    assert caplog.messages == []
    assert start("two") is run
    assert "start('two') returned the run 'one', which is still open: call finish()" in caplog.messages[0]
    assert (run.run_id, run.endpoint, run.owner) == ("fake", aggregator.endpoint, False)
    assert repr(run) == "<Run 'fake' fake>"
    assert len(aggregator.heard) == 1


def test_a_run_makes_instruments_and_records(aggregator: FakeAggregator) -> None:
    """All of it arrives, in order."""
    with start("job") as run:
        run.counter("run.n", unit="requests").add(2)
        run.gauge("run.g").set(3, at_ns=5)
        series = run.series("run.s", "ms", digits=2, low=0.1, high=50.0, rank=1)
        series.record(4)
        with series.time():
            pass
        run.mark("warm", at_ns=7, step=1)
        run.params({"lr": {"base": 0.5}}, at_ns=8)
        run.expect("run.m", 10, at_ns=9)
    assert aggregator.values("run.n") == [2.0]
    assert aggregator.values("run.g") == [3.0]
    assert len(aggregator.values("run.s")) == 2
    [heard] = aggregator.heard.values()
    assert heard.records == [
        Mark(text="warm", time_ns=7, labels={"step": "1"}),
        Params(values={"lr.base": 0.5}, time_ns=8),
        Expect(name="run.m", total=10.0, time_ns=9),
    ]


def test_an_attached_finish_reports_the_state_so_far(aggregator: FakeAggregator) -> None:
    """The run goes on; a second call returns the same report, and `report` is that."""
    run = start("job")
    run.counter("run.m").add()
    report = run.finish()
    assert (report.source, report.source_reason, report.state) == ("status", "", "LIVE")
    assert report.snapshot.accounting.received == 1
    assert run.finish() is run.report is report
    assert os.environ[ENDPOINT_VARIABLE] == aggregator.endpoint
    assert start("again") is not run


def test_an_exception_becomes_a_mark_and_goes_on(aggregator: FakeAggregator) -> None:
    """The run is finished nevertheless."""

    def work() -> None:
        with start("job"):
            raise ValueError("out of cheese")

    with pytest.raises(ValueError, match="cheese"):
        work()
    [heard] = aggregator.heard.values()
    assert [record.text for record in heard.records if isinstance(record, Mark)] == ["ValueError: out of cheese"]
    assert heard.end is not None


def test_secrets_in_the_mark_of_an_exception_are_masked(aggregator: FakeAggregator) -> None:
    """Drivers of databases put their address into it."""

    def work() -> None:
        with start("job"):
            raise ValueError("postgres://app:hunter2pw@db")

    with pytest.raises(ValueError, match="hunter2pw"):
        work()
    [heard] = aggregator.heard.values()
    texts = [record.text for record in heard.records if isinstance(record, Mark)]
    assert texts == ["ValueError: postgres://app:***@db"]


def test_an_exception_without_words_is_its_name_alone(aggregator: FakeAggregator) -> None:
    """Ctrl-C, for example."""

    def work() -> None:
        with start("job"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    [heard] = aggregator.heard.values()
    assert [record.text for record in heard.records if isinstance(record, Mark)] == ["KeyboardInterrupt"]


def test_a_clean_exit_is_no_mark(aggregator: FakeAggregator) -> None:
    """`sys.exit()` at the end of a script is how scripts end."""
    with pytest.raises(SystemExit), start("job"):
        raise SystemExit(0)
    [heard] = aggregator.heard.values()
    assert heard.records == []


def test_records_with_bad_arguments_never_raise(aggregator: FakeAggregator) -> None:
    """Records with bad arguments are counted. An expectation is a definition and does raise."""
    with start("job") as run:
        run.mark("x", at_ns=-1)
        run.params("no map")  # type: ignore[arg-type]
        with pytest.raises(InstrumentError):
            run.expect("n", -1)
    [heard] = aggregator.heard.values()
    assert heard.end is not None
    assert (heard.end.emitted, heard.end.dropped) == (2, {"unencodable": 2})


def test_an_endpoint_nobody_answers_at_is_an_error_after_a_bounded_wait(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the endpoint and the remedy, and leaves no producer running."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, f"ipc://{short_dir}/none")
    with pytest.raises(EndpointError, match=r"none within 0\.1 s .*required=False"):
        start("job", start_timeout_s=0.1)
    assert (PROCESS.state, PROCESS.flusher) == ("idle", None)


def test_not_required_it_goes_on_with_null_objects(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    """One line says so; the same run comes back without another wait."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, f"ipc://{short_dir}/none")
    with start("job", start_timeout_s=0.1, required=False) as run:
        assert start("job", required=False) is run
        run.counter("run.m").add()
        run.mark("x")
    assert run.endpoint == ""
    assert run.report.source_reason.startswith("no aggregator was reached")
    assert len([line for line in said() if "nothing is recorded" in line]) == 1


def test_a_wrong_setting_is_the_callers_error(aggregator: FakeAggregator) -> None:
    """A wrong setting raises, also when the run is not required."""
    with pytest.raises(ConfigError, match=r"argument of start\(\)\): expected "):
        start("job", flush_ms=-1, required=False)


@pytest.mark.slow
def test_finish_without_an_answer_says_why(aggregator: FakeAggregator, short_dir: Path) -> None:
    """The aggregator is gone: no exception, a report with a reason."""
    run = start("job")
    run.counter("run.m").add()
    aggregator.stop()
    report = run.finish(0.3)
    assert report.source == "last_live"
    assert "no aggregator listens at" in report.source_reason or "did not acknowledge" in report.source_reason


def test_only_who_spawned_ends_the_run(aggregator: FakeAggregator) -> None:
    """An attached producer asks for status, never for stop."""
    run = start("job")
    run.finish()
    assert {type(request).__name__ for request in aggregator.requests} <= {"Hello", "Ping", "End", "GetStatus"}
    assert isinstance(run, Run)


@pytest.mark.parametrize("name", ["x" * 201, 5])
def test_a_name_that_can_not_be_is_refused_before_anything_starts(name: Any) -> None:
    """An impossible name starts no aggregator."""
    with pytest.raises(UsageError):
        start(name)


def test_only_who_spawned_starts_backends(
    aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    """A process that joins a run has its backends from the process that began it."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("telemetry.supervise.writers.Child", never)
    with start("job", to="jsonl") as run:
        pass
    assert run.report.snapshot.backends == []
    assert said() == []


def test_backends_that_can_t_be_told_apart_start_nothing() -> None:
    """One is named as it is, several in a list."""
    with pytest.raises(UsageError, match="the same name"):
        start("job", to=["jsonl", "jsonl:path=x"])


def test_a_run_makes_requests(aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of a run are in the open tracking window. Marks name the begin and the end of the window."""
    monkeypatch.setattr(PROCESS, "kinds", Kinds(PROCESS))  # later runs of this process would declare the condition
    with start("job") as run:
        llm = run.requests("llm", expire_s=30.0, stop_when="p99 known", model="m")
        assert run.requests("llm", model="m") is llm
        with run.tracking(), llm.issue(key=1):
            assert not llm.enough
        with pytest.raises(InstrumentError):
            run.requests("llm", window="w")
        run.request("other", planned=time.monotonic_ns()).fail("timeout")
        with pytest.raises(UsageError, match=r"issued with 'stop_when'.*run\.requests\('llm', …\)"):
            run.request("llm", stop_when="p99 known")
        with pytest.raises(TypeError, match="unhashable"):
            run.request("llm", key=[])
    assert aggregator.values("llm.completed") == aggregator.values("other.failed") == [1.0]
    [heard] = aggregator.heard.values()
    marks = [record.text for record in heard.records if isinstance(record, Mark)]
    assert marks == ["tracking measured began", "tracking measured ended"]


def test_a_backend_that_nobody_has_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aggregator: FakeAggregator
) -> None:
    """An unknown backend raises and starts no run, as on the command line.

    A process that joins a run needs no backends.
    """
    monkeypatch.delenv(ENDPOINT_VARIABLE)
    with pytest.raises(UsageError, match="did you mean wandb"):
        start("job", dir=tmp_path, to=["wandbb"])
    assert run_module._STARTER.run is None
    monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
    start("job", to=["wandbb"]).finish(5.0)


def test_the_report_is_the_result_and_the_state_so_far_is_asked_for(aggregator: FakeAggregator) -> None:
    """Reading an attribute never talks to the aggregator; before the end it is an error that says what to call."""
    run = start("job")
    with pytest.raises(UsageError, match=r"call run.finish\(\) first, or run.live_report\(\)"):
        _ = run.report
    assert run.live_report().source == "status"
    assert run.finish() is run.report


def test_without_an_aggregator_there_is_nothing_to_ask(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without an aggregator says at once that there is none to query."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, f"ipc://{short_dir}/nobody")
    run = start("job", required=False, start_timeout_s=0.2)
    with pytest.raises(EndpointError, match="'job' has no aggregator to query"):
        run.live_report()
    assert "no aggregator was reached" in run._repr_html_()


def test_a_notebook_shows_the_run(aggregator: FakeAggregator) -> None:
    """A notebook shows the name of the run, how it goes, and the commands that open it."""
    html = start("job")._repr_html_()
    assert "<strong>fake</strong>" in html
    assert "telemetry top fake" in html
