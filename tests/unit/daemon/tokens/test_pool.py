"""Threads that have tokens counted: every text is answered once, whatever becomes of the workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from telemetry import limits
from telemetry.config.schema import TokensConfig
from telemetry.daemon.tokens import pool
from telemetry.daemon.tokens.pool import TokenCounter
from telemetry.daemon.tokens.process import WorkerGone
from telemetry.errors import TelemetryError

Make = Callable[..., TokenCounter]
WaitUntil = Callable[..., object]


class Stand:
    """A stand-in for a worker process that counts letters, and dies of a deadly text."""

    deadly: str = ""
    begins = True
    waits = True
    started: list[Stand]

    def __init__(self, tokenizer: str) -> None:
        self.pid = len(self.started) + 1
        self.asked: list[list[str]] = []
        self.dead = threading.Event()
        self.started.append(self)

    def await_ready(self, timeout_s: float) -> None:
        if not self.begins:
            raise WorkerGone("bad day")

    def count(self, texts: Sequence[str], timeout_s: float) -> list[int | None]:
        self.asked.append(list(texts))
        if self.dead.is_set() or (self.deadly and self.deadly in texts):
            raise WorkerGone("dead")
        if self.waits and "wait" in texts:
            self.dead.wait(20.0)
            raise WorkerGone("killed")
        return [None if text == "refused" else len(text) for text in texts]

    def kill(self) -> None:
        self.dead.set()

    def close(self) -> None:
        self.kill()


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> type[Stand]:
    """The class of stand-ins, of which those of this test are in `started`."""
    kind = type("Standing", (Stand,), {"started": []})
    monkeypatch.setattr(pool, "TokenProcess", kind)
    monkeypatch.setattr(limits, "RESTART_PAUSE_S", 0.0)
    return kind


@pytest.fixture
def make() -> Iterator[Make]:
    """`make(tokenizer, workers=1)` begins a counter; closed at the end of the test."""
    made: list[TokenCounter] = []

    def begin(tokenizer: str = "any", workers: int = 1) -> TokenCounter:
        made.append(TokenCounter(tokenizer, workers))
        made[-1].begin(lambda: None)
        return made[-1]

    yield begin
    for counter in made:
        counter.close()


def collect(counter: TokenCounter, number: int, wait_until: WaitUntil) -> dict[int, int | None]:
    """All answers, once there are as many texts in them; each is there once."""
    found: list[tuple[int, int | None]] = []

    def enough() -> bool:
        while (answer := counter.answer()) is not None:
            found.extend(answer)
        return len(found) >= number

    wait_until(enough, 20.0, "answers")
    assert len(dict(found)) == len(found)
    return dict(found)


def numbered(texts: Sequence[str], begin: int = 0) -> list[tuple[int, str]]:
    return list(enumerate(texts, begin))


def test_each_text_is_answered_by_its_number(stand: type[Stand], make: Make, wait_until: WaitUntil) -> None:
    """Texts that the tokenizer refuses are answered, too, and the loop is woken."""
    counter = TokenCounter("any", 2)
    woken: list[bool] = []
    counter.begin(lambda: woken.append(True))
    try:
        counter.submit(numbered(["a", "bb", "refused"]))
        counter.submit(numbered(["dddd"], 3))
        assert collect(counter, 4, wait_until) == {0: 1, 1: 2, 2: None, 3: 4}
        assert woken
    finally:
        counter.close()


def test_a_counter_wants_no_more_than_it_can_use(stand: type[Stand], make: Make, wait_until: WaitUntil) -> None:
    """One batch that waits for each worker, beside the one it has."""
    counter = make(workers=2)
    assert counter.hungry
    for number in range(2):
        counter.submit([(number, "wait")])
    wait_until(lambda: counter.hungry and sum(len(one.asked) for one in stand.started) == 2)
    counter.submit([(2, "a")])
    assert counter.hungry
    counter.submit([(3, "a")])
    assert not counter.hungry


def test_a_text_that_kills_two_workers_alone_is_given_up(
    stand: type[Stand], make: Make, wait_until: WaitUntil
) -> None:
    """The neighbours of a deadly text are counted, none of them twice."""
    stand.deadly = "poison"
    counter = make()
    counter.submit(numbered(["a", "poison", "ccc"]))
    assert collect(counter, 3, wait_until) == {0: 1, 1: None, 2: 3}
    deaths = [one for one in stand.started if one.asked and "poison" in one.asked[-1]]
    assert [len(one.asked[-1]) for one in deaths] == [3, 1, 1]


def test_a_text_that_two_workers_died_with_by_chance_is_counted(
    stand: type[Stand], make: Make, wait_until: WaitUntil
) -> None:
    """One death with others and one alone prove nothing about a text, so it is counted."""
    counter = make()
    counter.submit(numbered(["wait", "bb"]))
    for deaths in range(2):
        wait_until(lambda deaths=deaths: len(stand.started) > deaths and stand.started[deaths].asked)
        stand.waits = deaths < 1
        stand.started[deaths].kill()
    assert collect(counter, 2, wait_until) == {0: 4, 1: 2}
    assert [one.asked[0] for one in stand.started] == [["wait", "bb"], ["wait"], ["bb"]]


def test_a_worker_that_is_killed_is_replaced(tokenizer_file: Path, make: Make, wait_until: WaitUntil) -> None:
    """Another worker counts the texts of a worker that is killed while it works."""
    library = Tokenizer.from_file(str(tokenizer_file))
    counter = make(str(tokenizer_file), workers=2)
    texts = [f"to be or not to be {number} " * 50 for number in range(300)]
    for begin in range(0, 300, 100):
        counter.submit(numbered(texts[begin : begin + 100], begin))
    first = wait_until(lambda: counter.pids)
    assert isinstance(first, list)
    os.kill(first[0], signal.SIGKILL)
    expected = [len(encoding) for encoding in library.encode_batch(texts)]
    assert collect(counter, 300, wait_until) == dict(enumerate(expected))


def test_workers_that_can_t_begin_are_the_end_of_hope(
    stand: type[Stand], make: Make, wait_until: WaitUntil
) -> None:
    """The counter gives up after some attempts, with the reason, and wants no more texts."""
    stand.begins = False
    counter = make(workers=2)
    counter.submit(numbered(["a"]))
    wait_until(lambda: counter.lost, 20.0, "the end of hope")
    assert counter.lost == "no token counting worker can start: bad day"
    assert len(stand.started) == 2 * limits.RESTARTS
    assert not counter.hungry
    assert counter.answer() is None


def test_a_lane_that_fails_leaves_the_rest_to_others(stand: type[Stand], make: Make, wait_until: WaitUntil) -> None:
    """An error nobody expected ends one thread; there is hope while another works."""
    broken = []

    class Broken(Exception):
        pass

    def count(self: Stand, texts: Sequence[str], timeout_s: float) -> list[int | None]:
        if not broken:
            broken.append(self)
            raise Broken
        return [7]

    stand.count = count  # type: ignore[method-assign]
    counter = make(workers=2)
    counter.submit([(0, "a")])
    wait_until(lambda: broken)
    counter.submit([(1, "b")])
    assert collect(counter, 1, wait_until) == {1: 7}
    assert counter.lost == ""


def test_closing_waits_for_nobody(stand: type[Stand], make: Make, wait_until: WaitUntil) -> None:
    """A worker in the middle of a text is killed, and none follows."""
    counter = make()
    counter.submit([(0, "wait")])
    wait_until(lambda: stand.started and stand.started[0].asked)
    counter.close()
    counter.close()
    assert counter.pids == []
    assert len(stand.started) == 1
    assert counter.answer() is None


# --- opening -------------------------------------------------------------------------------------


def test_without_a_tokenizer_there_is_no_counter() -> None:
    """A configuration without a tokenizer has no counter and no process."""
    assert TokenCounter.open(TokensConfig()) is None


def test_opening_waits_for_a_worker_that_is_ready(tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is that of this directory, whatever becomes of it."""
    monkeypatch.chdir(tokenizer_file.parent)
    counter = TokenCounter.open(TokensConfig(tokenizer=tokenizer_file.name))
    assert counter is not None
    assert len(counter.pids) == 1
    counter.close()
    assert counter.pids == []


@pytest.mark.parametrize("content", [None, "{}", "\x1b[31m"])
def test_a_tokenizer_that_can_t_be_read_is_an_error(tmp_path: Path, content: str | None) -> None:
    """The error tells how to name a tokenizer. If the run is worth more, a counter counts nothing."""
    path = tmp_path / "t\x1b.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TelemetryError, match=r"can't read.*--tokenizer takes the path") as raised:
        TokenCounter.open(TokensConfig(tokenizer=str(path)))
    assert raised.value.exit_code == 1
    assert str(raised.value).isprintable()
    counter = TokenCounter.open(TokensConfig(tokenizer=str(path)), needed=False)
    assert counter is not None
    counter.begin(lambda: None)
    assert counter.lost == str(raised.value)
    assert not counter.hungry
    counter.close()


def test_a_library_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch, tokenizer_file: Path) -> None:
    """The error names the extra to install."""
    monkeypatch.setattr(pool, "find_spec", lambda name: None)
    with pytest.raises(TelemetryError, match=r"telemetryd\[tokens\]"):
        TokenCounter.open(TokensConfig(tokenizer=str(tokenizer_file)))
