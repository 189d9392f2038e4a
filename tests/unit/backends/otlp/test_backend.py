"""The backend that sends to a receiver of OTLP, over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends.otlp_receiver import Answer, HttpReceiver
from tests.backends.reading_otlp import points, read_back, spans

from telemetry.backends.backend import NotConfigured, Refused, RunFacts, Unavailable
from telemetry.backends.items import Item, Mark, Span, Step
from telemetry.backends.otlp.backend import OtlpBackend
from telemetry.backends.otlp.receiver import OtlpOptions

FACTS = RunFacts("r1", "job", 1, None)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[HttpReceiver]:
    with HttpReceiver(tmp_path / "got") as receiver:
        yield receiver


def begun(there: HttpReceiver, tmp_path: Path, **options: bool) -> OtlpBackend:
    backend = OtlpBackend(OtlpOptions(endpoint=there.endpoint, **options), tmp_path)
    backend.say = lambda words: None
    backend.open(FACTS, {})
    for path in there.folder.iterdir():
        path.unlink()
    return backend


def step(number: int, values: int = 1) -> Step:
    names = {f"v{index}": number + index / 8 for index in range(values)}
    return Step(key=f"r{number}", time_ns=number + 1, axis="a", step=number, values=names)


def span(number: int) -> Span:
    return Span(key=f"s{number}", time_ns=number, end_ns=number + 90, name="x")


def test_a_batch_that_failed_goes_on_where_it_stopped(there: HttpReceiver, tmp_path: Path) -> None:
    """Requests that were acknowledged are not sent again, also of an item that is in several."""
    backend = begun(there, tmp_path)
    items = [step(0, 3_000), step(1, 3_000), step(2, 3_000)]
    there.answers = [Answer(), Answer(503)]
    with pytest.raises(Unavailable):
        backend.write(items)
    backend.write([*items, step(3)])
    backend.flush()
    found = read_back(there.folder)
    assert found.counts["step"] == 9_001 == sum(map(len, found.steps.values()))


def test_requests_are_small(there: HttpReceiver, tmp_path: Path) -> None:
    """However many names a step has."""
    begun(there, tmp_path).write([step(0, 12_000)])
    assert len(list(there.folder.iterdir())) == 3
    assert len(read_back(there.folder).steps["a", 0]) == 12_000


def test_one_that_is_too_large_is_parted(there: HttpReceiver, tmp_path: Path) -> None:
    """A request that is too large is parted until the receiver takes it.

    A single number that is too large is refused.
    """
    backend = begun(there, tmp_path)
    there.largest = 4_000
    backend.write([step(0, 200)])
    backend.flush()
    assert len(read_back(there.folder).steps["a", 0]) == 200
    there.largest = 10
    with pytest.raises(Refused) as told:
        backend.write([step(1)])
    assert (told.value.reason, told.value.keys) == ("http_413", {"r1"})


def test_what_is_refused_is_named_and_the_rest_is_there(there: HttpReceiver, tmp_path: Path) -> None:
    """A refused request is named by the keys of its items, and the other requests arrive.

    Parts of a request that are rejected are counted.
    """
    backend = begun(there, tmp_path)
    said: list[str] = []
    backend.say = said.append
    there.answers = [Answer(400), Answer(body=b"\x0a\x07\x08\x02\x12\x03old")]
    with pytest.raises(Refused) as told:
        backend.write([step(0, 5_000), step(1)])
    assert told.value.keys == {"r0"}
    assert backend.left_out == {"rejected": 2}
    assert said == ["it rejects metrics: HTTP 400: Bad Request", "the receiver reports for metrics: old"]
    assert [got.labels["step"] for got in points(there.folder)] == [1]


def test_the_run_is_a_span_if_there_are_others(there: HttpReceiver, tmp_path: Path) -> None:
    """Sent at its end, over all that was seen; a process that goes on knows of it."""
    backend = begun(there, tmp_path)
    backend.write([step(0)])
    backend.close(final=True)
    assert spans(there.folder) == []
    backend.open(FACTS, {})
    backend.write([span(5)])
    state = backend.state()
    backend.close(final=False)
    again = OtlpBackend(OtlpOptions(endpoint=there.endpoint), tmp_path)
    again.open(FACTS, state)
    there.answers = [Answer(503)]
    with pytest.raises(Unavailable):
        again.close(final=True)
    again.close(final=True)
    assert [(one.name, one.end_time_unix_nano) for one in spans(there.folder)] == [("x", 95), ("job", 95)]


def test_spans_without_a_parent_need_no_span_of_the_run(there: HttpReceiver, tmp_path: Path) -> None:
    """The backend sends no span of the run at the end if spans without a parent are roots."""
    backend = OtlpBackend(OtlpOptions(endpoint=there.endpoint, roots=True), tmp_path)
    backend.open(FACTS, {})
    backend.write([span(5)])
    backend.close(final=True)
    assert [(one.name, one.parent_span_id) for one in spans(there.folder)] == [("x", b"")]


def test_a_signal_that_is_not_wanted_has_no_place(there: HttpReceiver, tmp_path: Path) -> None:
    """An unwanted signal has no place, and a receiver of the other signal alone is enough."""
    assert Span not in begun(there, tmp_path, traces=False).takes
    backend = begun(there, tmp_path, metrics=False)
    assert backend.takes == (Span,)
    assert backend.where().endswith("/v1/traces")
    backend.write([span(1)])
    assert [path.name for path in there.folder.iterdir()] == ["000000.traces.pb"]
    with pytest.raises(NotConfigured, match="both disabled"):
        OtlpBackend(OtlpOptions(metrics=False, traces=False), tmp_path)


def test_a_slow_receiver_costs_no_more_than_a_call_may(there: HttpReceiver, tmp_path: Path) -> None:
    """The rest of the batch comes again."""
    moments = iter([0.0, 1.0, 31.0, 100.0, 101.0])
    backend = OtlpBackend(OtlpOptions(endpoint=there.endpoint), tmp_path, lambda: next(moments, 102.0))
    backend.open(FACTS, {})
    items: list[Item] = [step(0, 5_000), step(1, 5_000)]
    with pytest.raises(Unavailable, match="slow"):
        backend.write(items)
    backend.write(items)
    assert read_back(there.folder).counts["step"] == 10_000


def test_who_is_not_known_can_not_begin(there: HttpReceiver, tmp_path: Path) -> None:
    """A key that worked once may work again."""
    backend = begun(there, tmp_path)
    there.answers = [Answer(403), Answer(403), Answer(404)]
    with pytest.raises(Unavailable):
        backend.write([step(0)])
    for words in ("HTTP 403", "no receiver for metrics"):
        with pytest.raises(NotConfigured, match=words):
            backend.open(FACTS, {})


def test_items_of_other_kinds_are_passed_over(there: HttpReceiver, tmp_path: Path) -> None:
    """Items that the backend does not take are passed over, and nothing is sent for them."""
    begun(there, tmp_path).write([Mark(key="m", time_ns=1, text="x")])
    assert list(there.folder.iterdir()) == []
