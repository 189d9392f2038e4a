"""The producer's account: emitted = sent + dropped, whatever happens in which order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry import limits
from telemetry.client import records
from telemetry.client.recorders import python_recorders
from telemetry.client.sending.outbox import Announcer, Outbox
from telemetry.wire.codec import decode_batch, decode_record
from telemetry.wire.drop_reasons import Reason

STEPS = st.lists(
    st.tuples(st.sampled_from(["fill", "burst", "bad", "mark", "pack"]), st.integers(0, 40)), max_size=40
)
PARAMS = st.recursive(
    st.none() | st.text() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(STEPS)
def test_emitted_is_sent_plus_dropped(steps: list[tuple[str, int]]) -> None:
    """Numbers never overlap, and every hole between two batches is a drop with a reason."""
    recorders = python_recorders(now=lambda: 1 << 40)
    recorders.install(recorders.buffer.extend)
    record = recorders.record(0.0)
    tallies = {Reason.NOT_A_NUMBER: recorders.refused}
    outbox = Outbox("p", recorders.buffer, [], tallies=tallies, row_bound=50)
    emitted = sent = following = 0
    for step, count in [*steps, ("pack", 0), ("pack", 0)]:
        if step == "pack":
            outbox.settle()
            packed = outbox.pack()
            if packed is None:
                continue
            batch = decode_batch(packed.frame)
            assert batch.first >= following
            assert packed.events == batch.rows.events + len(batch.records)
            sent += packed.events
            following = batch.first + packed.events
            assert sum(batch.dropped.values()) + sent == following
        elif step == "mark":
            outbox.records.extend(records.mark("m", {}, 1) for _ in range(count))
            emitted += count
        else:
            value: Any = "text" if step == "bad" else 1.5
            for _ in range(3 * count if step == "burst" else count):
                record(value)
                emitted += 1
    assert outbox.emitted == emitted == sent + sum(outbox.dropped.values())


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3)), max_size=12))
def test_every_definition_is_sent_before_rows_may_be(steps: list[tuple[int, int]]) -> None:
    """Every definition is sent before rows may be, whatever is defined and acknowledged in between."""
    definitions: list[bytes] = []
    announcer = Announcer(definitions)
    carried: set[int] = set()
    seq = acknowledged = 0
    for new, acks in steps:
        definitions += [b"d"] * new
        covered = False
        while not covered:
            start, stop = announcer.window()
            assert stop - start <= limits.BATCH_RECORDS
            covered = announcer.covers_all(stop)
            carried.update(range(start, stop))
            announcer.carried(seq, start, stop)
            seq += 1
        assert carried == set(range(len(definitions)))
        acknowledged = min(seq, acknowledged + acks)
        announcer.acknowledged(acknowledged)


@given(st.dictionaries(st.text() | st.integers(), PARAMS))
def test_whatever_params_hold_the_wire_takes(values: dict[Any, Any]) -> None:
    """Records made of any params decode within every bound."""
    for raw in records.params(values, 1):
        decode_record(raw)


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers()))
def test_whatever_a_mark_says_the_wire_takes(text: str, labels: dict[str, Any]) -> None:
    """The record of a mark with any text and labels decodes within every bound."""
    decode_record(records.mark(text, labels, 0))
