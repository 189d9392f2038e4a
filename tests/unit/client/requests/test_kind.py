"""Kinds of request: who is in flight, by key and by age, and when a load has enough."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from telemetry import limits
from telemetry.client.requests import kind as requests_module
from telemetry.client.requests.instruments import Family
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat


def test_a_request_is_found_by_its_key_while_it_is_in_flight(program: Any) -> None:
    """A key finds its request while the request is in flight. After that the key is free."""
    llm = program.requests()
    made = llm.issue(key="a")
    assert llm.find("a") is made
    llm.find("a").complete()
    again = llm.issue(key="a")
    assert llm.find("a") is again
    assert llm.in_flight == 1


def test_of_two_with_one_key_the_first_keeps_it(program: Any) -> None:
    """A key finds the first of two requests that use it. The second is counted, and ends by its own methods."""
    llm = program.requests()
    first, second = llm.issue(key=1), llm.issue(key=1)
    assert llm.find(1) is first
    second.complete()
    assert llm.find(1) is first
    first.fail()
    assert llm.in_flight == 0
    assert Counter(name for name, *_ in program.events)["llm.issued"] == 2


def test_calls_for_a_request_nobody_knows_are_counted(program: Any) -> None:
    """Each of them, and outside any window: nobody knows when it was issued."""
    with program.tracking("w"):
        nobody = program.requests().find("zz")
        assert [nobody.first(at_ns=4), nobody.chunk(at_ns=5), nobody.complete(at_ns=6)] == [4, 5, 6]
        with nobody:
            pass
    assert program.events == [("llm.after_end", {}, at, 1.0) for at in (4, 5, 6)]


def test_a_key_that_cannot_be_one_leaves_nothing_behind(program: Any) -> None:
    """An unusable key is the caller's mistake, and raises before anything is recorded."""
    llm = program.requests()
    for wrong in ({"key": []}, {"conversation": []}):
        with pytest.raises(TypeError):
            llm.issue(**wrong)
    assert (llm.in_flight, program.events) == (0, [])


def test_without_a_run_nothing_is_kept(program: Any) -> None:
    """Requests are null objects with the same API; what comes of them later is in no run either."""
    program.state = "idle"
    llm = program.requests()
    made = llm.issue(key="k", conversation="c", input_text="t")
    assert made.first(at_ns=3) == 3
    assert llm.find("k") is made
    assert (llm.in_flight, llm._by_key, len(llm._conversations)) == (0, {}, 0)
    program.state = "live"
    made.chunk()
    made.complete()
    assert (program.events, program.definitions) == ([], [])


class Now:
    """The clock of the process."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr(requests_module, "_now", clock)
    return clock


def test_requests_expire_by_age(program: Any, now: Now) -> None:
    """Each once; what is said of them afterwards is counted."""
    llm = program.requests()
    llm.expire_s = 1e-6
    now.ns = 1_000
    old = llm.issue(key="k")
    now.ns = 3_000
    young = llm.issue()
    old.first(at_ns=1_100)
    llm.tend(2_500)
    program.take()
    old.chunk(at_ns=2_600)
    old.complete(at_ns=2_700)
    llm.tend(4_000)
    young.fail(at_ns=4_100)
    assert [(name, at) for name, _, at, _ in program.events] == [
        ("llm.after_end", 2_600),
        ("llm.after_end", 2_700),
        ("llm.expired", 4_000),
        ("llm.after_end", 4_100),
    ]
    assert (llm.in_flight, llm._by_key) == (0, {})


def test_the_age_of_a_request_is_how_long_ago_it_was_told(program: Any, now: Now) -> None:
    """A log of yesterday is replayed in seconds, and one of tomorrow holds up nobody."""
    llm = program.requests()
    llm.expire_s = 1e-6
    now.ns = 10_000
    for at_ns in (20_000, 0):
        llm.issue(at_ns=at_ns)
    llm.tend(10_500)
    assert llm.in_flight == 2
    llm.tend(11_000)
    assert llm.in_flight == 0


def test_without_an_age_none_expires(program: Any) -> None:
    """A request without an age limit stays in flight, however long."""
    llm = program.requests()
    llm.issue(at_ns=0)
    llm.tend(1 << 62)
    assert llm.in_flight == 1


def test_an_issue_that_raises_has_changed_nothing(program: Any) -> None:
    """An issue that raises leaves the conversation unchanged. The next request of the conversation is its first."""
    llm = program.requests()
    for given in ({"key": []}, {"conversation": []}):
        with pytest.raises(TypeError):
            llm.issue(**{"key": "k", "conversation": "c", **given})
    assert (llm.in_flight, program.events, len(llm._conversations)) == (0, [], 0)
    llm.issue(key="k", conversation="c").complete()
    assert [labels for name, labels, *_ in program.events if name == "llm.turn.latency"] == [{"turn": "1"}]


def test_a_look_that_was_disturbed_is_made_again_soon(
    program: Any, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dictionary that changes while it is read says nothing: that is not the same as nothing to do."""
    llm = program.requests()
    llm.expire_s = 1e-6
    llm.issue()
    with monkeypatch.context() as patched:
        patched.setattr(requests_module, "islice", lambda *_: _disturbed())
        llm.tend(5_000)
    llm.tend(5_001)
    assert llm.in_flight == 0


def _disturbed() -> Iterator[Any]:
    raise RuntimeError("dictionary changed size during iteration")
    yield


def test_nothing_is_kept_of_windows_that_were_left(program: Any) -> None:
    """However many there were; entering one again goes on with its instruments."""
    llm, quiet = program.requests(), program.requests("quiet")
    for number in range(200):
        with program.tracking(f"w{number % 100}"):
            llm.issue().complete()
    gc.collect()
    families = [one for one in gc.get_objects() if isinstance(one, Family)]
    assert [sum(one.open is kind._open for one in families) for kind in (llm, quiet)] == [1, 1]
    assert quiet.in_flight == 0
    windows = Counter(labels["window"] for name, labels, *_ in program.events if name == "llm.completed")
    assert set(windows.values()) == {2}
    assert len(windows) == 100
    assert len(program.definitions) == 100 * 5


def test_a_turn_of_expiry_is_bounded(watched: Any, now: Now, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first, past a policy that waits; while there are more it goes on at once, else it rests."""
    monkeypatch.setattr(limits, "EXPIRED_A_TURN", 3)
    llm = watched.requests()
    llm.expire_s = 1e-6
    for _ in range(5):
        llm.issue()
    puts = len(watched.puts)
    llm.tend(5_000)
    assert llm.in_flight == 2
    llm.tend(5_001)
    llm.tend(5_002)
    llm.issue()
    llm.tend(5_003)
    assert llm.in_flight == 1
    llm.tend(5_002 + 250)
    assert llm.in_flight == 0
    assert len(watched.puts) == puts + 1


def test_an_outcome_is_claimed_once_whoever_comes_first(program: Any) -> None:
    """Callers and expiry end thousands of requests at the same time, and no request has two outcomes or none."""
    llm = program.requests()
    llm.expire_s = 1e-9
    stop = threading.Event()
    done: list[int] = []
    interval = sys.getswitchinterval()

    def call(seed: int) -> None:
        for number in range(1_500):
            made = llm.issue(key=(seed, number % 7), planned=time.monotonic_ns())
            made.first()
            made.chunk()
            again = llm.find((seed, number % 7))
            (made.fail if number % 3 == 0 else made.complete)()
            again.complete()
        done.append(seed)

    def tend() -> None:
        while not stop.is_set():
            llm.tend(time.monotonic_ns())

    tender = threading.Thread(target=tend)
    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    try:
        sys.setswitchinterval(1e-5)
        for thread in (tender, *callers):
            thread.start()
        for thread in callers:
            thread.join()
    finally:
        stop.set()
        tender.join()
        sys.setswitchinterval(interval)
    assert sorted(done) == [0, 1, 2, 3]
    seen = Counter(name for name, *_ in program.events)
    assert seen["llm.issued"] == 6_000
    assert seen["llm.completed"] + seen["llm.failed"] + seen["llm.expired"] + llm.in_flight == 6_000
    assert seen["llm.latency"] == seen["llm.completed"]
    assert (len(llm._by_key), llm.in_flight) == (0, 0)


def latency(count: int, value: float, **labels: str) -> SeriesStat:
    return SeriesStat(
        name="llm.latency",
        labels=labels,
        unit="ns",
        count=count,
        min=value,
        max=value,
        percentiles={"50": value, "99": value},
    )


class Answers:
    """Answers in place of those of an aggregator."""

    def __init__(self, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.series: list[SeriesStat] = []
        self.asked = 0
        monkeypatch.setattr(program.kinds._asker, "ask", self.ask)

    def ask(self) -> MetricsSnapshot:
        self.asked += 1
        return MetricsSnapshot(run_id="r", name="n", epoch="e", seq=1, state="LIVE", series=self.series)


def test_a_percentile_is_known_once_there_are_samples_enough(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A percentile is known by the samples of exactly this kind, in the open tracking window."""
    answers = Answers(program, monkeypatch)
    llm = program.requests(model="m")
    answers.series = [latency(10**6, 1.0), latency(600, 5.0, model="m"), latency(662, 7.0, model="m", window="w")]
    asked = llm.known("99")
    assert (asked.count, asked.needed, asked.missing, asked.known, asked.bound) == (600, 662, 62, False, None)
    with program.tracking("w"):
        asked = llm.known("99", within=0.05)
    assert (asked.count, asked.missing, asked.known, asked.value, asked.bound) == (662, 0, True, 7.0, 7.0)
    assert not llm.known("99", of="ttft").known


def test_a_load_has_enough_once_its_condition_is_met(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The aggregator is not asked again once the condition is met, until another window is open.

    A load without a condition never has enough.
    """
    answers = Answers(program, monkeypatch)
    llm = program.kinds.requests("llm", {}, stop_when="p50 known")
    answers.series = [latency(10, 5.0)]
    assert not llm.enough
    answers.series = [latency(11, 5.0)]
    assert llm.enough
    answers.series = []
    asked = answers.asked
    assert llm.enough
    assert answers.asked == asked
    with program.tracking("w"):
        assert not llm.enough
    assert not program.requests("other").enough


def test_a_load_that_never_has_enough_hears_why(program: Any, said: Any) -> None:
    """One line says that no condition is given. The load goes on, since a condition may still come."""
    llm = program.requests()
    assert [llm.enough, llm.enough, program.requests().enough] == [False] * 3
    [line] = said()
    assert "`enough`" in line
    assert "stop_when=" in line


def test_what_it_says_of_itself(program: Any) -> None:
    """The repr of a kind has its name, its labels, and how many requests are in flight."""
    llm = program.requests(model="m")
    llm.issue()
    assert repr(llm) == "<Requests 'llm', model='m', 1 in flight>"
