"""Checkpoints: what is declared, what is saved, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.checkpoint import PART, PARTS, ArrayColumn, encode, load, save
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS as T
from telemetry.testing.builders import WALL_NS
from telemetry.wire.codec import Malformed, encode_snapshot
from telemetry.wire.control import End, Hello
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import (
    Axis,
    Count,
    Counted,
    Define,
    EventRecord,
    Expect,
    Gauge,
    Mark,
    Params,
    Sample,
    Scalars,
    StepEnd,
    Uncounted,
)

SECOND = 1_000_000_000
FACTS = SnapshotFacts(run_id="r", name="n")


def busy(*, reported: bool = True) -> Aggregator:
    """An aggregator with something of everything; `reported` adds an axis that closes by reports."""
    aggregator = Aggregator(AggregatorConfig(percentiles=("50", "99"), window_s=2, series_cap=4))
    defines: list[EventRecord] = [
        Define(0, "latency", "series", "ns", within="latency"),
        Define(1, "size", "series", "B", {"k": "v"}, 2, 1.0, 1e6),
        Define(2, "fine", "series", "s", {}, 5, None, 10.0),
        Define(3, "requests", "counter", within="latency"),
        Define(4, "depth", "gauge"),
    ]
    others: list[EventRecord] = [Mark("m"), Params({"a": 1, "b": None}), Expect("requests", 9.0), Gauge("g", -2.5)]
    steps: list[EventRecord] = [
        *(Axis("train", "sum", {"a*": "max"}), Scalars("train", 1, {"a": 1.0, "b": None}), StepEnd("train", 1)),
        *(Scalars("train", 2, {"a": 2.0}, T + 5), Scalars("train", 2, {"a": 2.5}, T + 9)),
    ]
    if reported:
        steps += [Axis("eval", closing="reported"), Scalars("eval", 7, {"a": 2.0}, T + 5), StepEnd("eval", 7)]
    texts: list[EventRecord] = [Uncounted("a", "tokens"), Uncounted("b", "tokens", T, {"k": "v"}), Counted([0], 1)]
    beyond: list[EventRecord] = [Count(f"c{number}", 0.1) for number in range(9)]
    rows = [(at % 6, T + at, 1.5 * at) for at in range(200)]
    rows += [*[(3, T, 2.0**62)] * 6, (3, T, math.nan), (0, T, -1.0)]
    rows += [(1, T, value) for value in (1e12 + 0.1, 0.1, 2.0**60, 1 / 3)]
    aggregator.hello(Hello(producer="p", name="n", host="h", pid=5, rank=1), 1, 2)
    sent = [
        batch("p", 0, 0, records=defines, dropped={"buffer_full": 2, "odd": 3}),
        batch("p", 1, 5, rows=rows),
        batch("p", 4, 300, records=[*others, *beyond, *texts], rows=rows),
        batch("p", 5, 600, records=steps),
        batch("q", 0, 0, records=[Sample("s", 2.0), Scalars("train", 1, {"a": 4.0})]),
        batch("q", 1, 2, rows=[(7, T, 1.0)]),
    ]
    for turn in (sent[:1], sent[1:5], sent[5:]):
        assert all(aggregator.admit(one, 3) for one in turn)
        aggregator.apply(turn, 4, WALL_NS)
        aggregator.roll(5, 6, SECOND)
        aggregator.pass_time(SECOND)
        aggregator.bad_frame(Reason.WRONG_TOPIC)
        aggregator.take_bad_frames()
    aggregator.cannot_resend("p", 2, 2, 7)
    aggregator.end(End(producer="q", batches=2, emitted=3), 8)
    aggregator.bad_frame(Reason.IMPLAUSIBLE)
    last = batch("p", 6, 700, rows=rows)
    assert aggregator.admit(last, 9)
    aggregator.apply([last], 9, WALL_NS)
    aggregator.series.apply_exact({0: {"50": 3.0}})
    return aggregator


# --- what is declared ----------------------------------------------------------------------------


def stateful_parts(owner: Any) -> Iterator[Any]:
    """The object and all that have a state below it."""
    yield owner
    for name, kind in owner.STATE.items():
        part = getattr(owner, name)
        if kind is PART:
            yield from stateful_parts(part)
        elif kind is PARTS:
            for each in part.values() if isinstance(part, dict) else part:
                yield from stateful_parts(each)


def attributes(owner: object) -> set[str]:
    slots = {name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())}
    return slots | set(getattr(owner, "__dict__", ()))


def test_every_attribute_is_declared() -> None:
    """Each attribute of a part is declared as state or as derived, so no new field is forgotten."""
    for part in stateful_parts(busy()):
        state, derived = set(part.STATE), set(part.DERIVED)
        properties = {name for name in state if isinstance(getattr(type(part), name, None), property)}
        name = type(part).__name__
        assert attributes(part) == (state - properties) | derived, (
            f"{name}: what are these attributes to a checkpoint?"
        )
        assert not state & derived, name


def test_what_has_a_state_is_reached_by_one_path() -> None:
    """A checkpoint saves no shared part twice.

    No part with a state hides behind an attribute that is declared as derived.
    """
    parts = list(stateful_parts(busy()))
    reached = [id(part) for part in parts]
    assert len(set(reached)) == len(reached)
    for part in parts:
        for name in part.DERIVED:
            value = getattr(part, name)
            assert not getattr(value, "STATE", None) or id(value) in reached, f"{type(part).__name__}.{name}"


# --- what is saved -------------------------------------------------------------------------------


def test_a_restored_aggregator_says_the_same() -> None:
    """Snapshot, interval and checkpoint of one with something of everything."""
    whole = busy()
    checkpoint = whole.checkpoint()
    restored = Aggregator.restore(memoryview(checkpoint))
    assert restored.checkpoint() == checkpoint
    assert restored.snapshot(FACTS, 9, 10) == whole.snapshot(FACTS, 9, 10)
    more = batch("p", 7, 900, rows=[(at % 6, T, 0.1 * at) for at in range(60)])
    for sent in ([], [more], []):
        restored = Aggregator.restore(restored.checkpoint())
        for aggregator in (restored, whole):
            assert all(aggregator.admit(one, 0) for one in sent)
            aggregator.apply(sent, 0, WALL_NS)
        assert restored.roll(1, 2, SECOND) == whole.roll(1, 2, SECOND)
        assert restored.snapshot(FACTS, 9, 10) == whole.snapshot(FACTS, 9, 10)
    assert restored.keys() == whole.keys()
    assert restored.book.gaps("p") == whole.book.gaps("p") == [(3, 3)]


def test_a_batch_may_be_admitted_before_a_checkpoint_and_applied_after_it() -> None:
    """A checkpoint between admitting and applying a batch loses nothing. In practice none is made there."""
    whole = busy()
    sent = batch("p", 3, 250, rows=[(0, T, 3.0)])
    assert whole.admit(sent, 0)
    restored = Aggregator.restore(whole.checkpoint())
    for aggregator in (whole, restored):
        aggregator.apply([sent], 0, WALL_NS)
    assert restored.checkpoint() == whole.checkpoint()


def test_a_restored_aggregator_acknowledges_anew() -> None:
    """A restored aggregator acknowledges anew, as its producers may have missed what it sent before."""
    whole = busy()
    whole.book.acknowledgements()
    assert whole.book.acknowledgements() == []
    assert Aggregator.restore(whole.checkpoint()).book.acknowledgements() == [("p", 3), ("q", 2)]


def test_a_new_aggregator_has_a_checkpoint() -> None:
    """The checkpoint of an aggregator without events, with which a journal begins, restores the same aggregator."""
    checkpoint = Aggregator(AggregatorConfig(window_s=5)).checkpoint()
    assert Aggregator.restore(checkpoint).checkpoint() == checkpoint
    assert len(checkpoint) < 2_900


@pytest.mark.slow
def test_checkpoints_are_the_same_in_every_process() -> None:
    """No number in a checkpoint depends on how a process hashes strings, or on unwritten memory."""
    program = (
        "import sys; from test_state import busy; a = busy(); "
        "from telemetry.aggregator import Aggregator; "
        "sys.stdout.buffer.write(a.checkpoint() + Aggregator.restore(a.checkpoint()).checkpoint())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path])},
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert found == {bytes(busy().checkpoint() * 2)}


def test_a_checkpoint_is_sparse() -> None:
    """A series costs what its histogram occupies."""
    aggregator = Aggregator(AggregatorConfig())
    defines = [Define(number, "s", "series", "ns", {"n": str(number)}) for number in range(100)]
    rows = [(number, T, 100.0 * value) for number in range(100) for value in range(10)]
    sent = batch(records=defines, rows=rows)
    assert aggregator.admit(sent, 0)
    aggregator.apply([sent], 0, 0)
    aggregator.roll(0, 1, SECOND)
    assert len(aggregator.checkpoint()) < 60_000


# --- what is refused -----------------------------------------------------------------------------


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in a tree of maps and lists, itself and what it holds."""
    yield path
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from _leaves(tree[key], (*path, key))


def _changed(tree: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(tree)
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = _changed(tree[path[0]], path[1:], change)
    return copy


def _one_more(value: Any) -> Any:
    """The same, longer."""
    if isinstance(value, dict):
        return {**value, "more": 1}
    if isinstance(value, list):
        return [*value, *(value[-1:] or [0])]
    return value + value if isinstance(value, bytes | str) and value else -1


LIES: Mapping[str, Callable[[Any], Any]] = {
    "nothing": lambda value: None,
    "text": lambda value: "x",
    "less than nothing": lambda value: -(1 << 63),
    "too much": lambda value: (1 << 64) - 1,
    "not a number": lambda value: math.nan,
    "empty": lambda value: type(value)(),
    "one more": _one_more,
    "odd bytes": lambda value: value + b"x" if isinstance(value, bytes) else b"x",
    "turned around": lambda value: value[::-1] if isinstance(value, bytes | list) else [value],
}


STRIDE = 7  # all values by all lies would take a minute; each lie begins at another value


@pytest.mark.parametrize(
    "lie",
    [lie if lie in ("not a number", "one more") else pytest.param(lie, marks=pytest.mark.slow) for lie in LIES],
)
def test_what_no_aggregator_saved_is_refused_or_harmless(lie: str) -> None:
    """A checkpoint with one value replaced gives one clear error, or an aggregator that goes on."""
    aggregator = busy()
    tree = msgspec.msgpack.decode(aggregator.checkpoint())
    Aggregator.restore(msgspec.msgpack.encode(tree))
    refused = 0
    more = batch("p", 6, 900, rows=[(at % 5, T, 2.0) for at in range(50)])
    for path in list(_leaves(tree))[list(LIES).index(lie) % STRIDE :: STRIDE]:
        lied = msgspec.msgpack.encode(_changed(tree, path, LIES[lie]))
        try:
            restored = Aggregator.restore(lied)
        except Malformed:
            refused += 1
            continue
        with np.errstate(all="ignore"):
            if restored.admit(more, 0):
                restored.apply([more], 0, WALL_NS)
            restored.roll(0, 1, SECOND)
            encode_snapshot(restored.snapshot(FACTS, 0, 0))
            restored.checkpoint()
    assert refused


@pytest.mark.parametrize(
    "data", [b"", b"\xc0", b"\x80", b"\xdf\xff\xff\xff\xff", b"\x91" * 100_000, b"\xc6\xff\xff\xff\xff"]
)
def test_noise_is_refused(data: bytes) -> None:
    """Bytes that are no map, that end early, or that nest without end."""
    with pytest.raises(Malformed):
        Aggregator.restore(data)


def test_a_checkpoint_cut_short_is_refused() -> None:
    """Wherever it ends."""
    checkpoint = busy().checkpoint()
    for length in range(0, len(checkpoint), 7):
        with pytest.raises(Malformed):
            Aggregator.restore(checkpoint[:length])


def test_another_format_is_another_version() -> None:
    """A checkpoint from a later release is called that."""
    tree = msgspec.msgpack.decode(Aggregator(AggregatorConfig()).checkpoint())
    with pytest.raises(Malformed, match="format 6, not 5") as caught:
        Aggregator.restore(msgspec.msgpack.encode({**tree, "format": 6}))
    assert caught.value.reason == Reason.WRONG_VERSION


def without_reports(tree: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint as 1.3 wrote it: no reports, and a declaration without the way steps close."""
    for axis in tree["state"]["_steps"]["_axes"].values():
        del axis["_reports"]
        if axis["declared"] is not None:
            del axis["declared"][5:]
    return tree


def test_a_checkpoint_of_1_3_is_read() -> None:
    """A restored checkpoint of version 1.3 has axes that close as before and go on the same."""
    before = busy(reported=False)
    tree = without_reports(msgspec.msgpack.decode(before.checkpoint()))
    restored = Aggregator.restore(msgspec.msgpack.encode({**tree, "format": 4}))
    assert restored.checkpoint() == before.checkpoint()
    assert [*restored.close()] == [*before.close()]


def test_the_oldest_format_is_read() -> None:
    """A checkpoint of the oldest format has no clock of the run, so its times are of the wall clock.

    The format has no count of rounded values in counters and gauges either.
    """
    before = busy(reported=False)
    tree = without_reports(msgspec.msgpack.decode(before.checkpoint()))
    del tree["state"]["_clock"], tree["state"]["_gauges"]["_imprecise"]
    for counters in (tree["state"]["_counters"], tree["state"]["_extents"]["_inside"]):
        del counters["_imprecise"]
    restored = Aggregator.restore(msgspec.msgpack.encode({**tree, "format": 3}))
    facts = SnapshotFacts(run_id="r", name="n")
    then = before.snapshot(facts, 9, WALL_NS)
    counters = [replace(stat, imprecise=min(stat.imprecise, 1)) for stat in then.counters]
    assert restored.snapshot(facts, 9, WALL_NS) == replace(then, counters=counters)


@pytest.mark.parametrize(
    "lie",
    [
        {"series_cap": limits.SERIES_MOST + 1},
        {"window_s": math.nan},
        {"window_s": math.inf},
        {"percentiles": ["x"]},
    ],
)
def test_settings_nobody_may_choose_are_refused(lie: dict[str, Any]) -> None:
    """A cap is a bound only if it has one."""
    tree = msgspec.msgpack.decode(Aggregator(AggregatorConfig()).checkpoint())
    with pytest.raises(Malformed):
        Aggregator.restore(msgspec.msgpack.encode({**tree, "config": {**tree["config"], **lie}}))


def test_more_than_the_limits_allow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint can't make an aggregator that takes more memory than one may."""
    checkpoint = busy().checkpoint()
    for name, value in {"PRODUCERS": 1, "ID_SLOTS": 8, "INSTRUMENT_CHARS": 9, "UNKNOWN_ROWS": 3}.items():
        with monkeypatch.context() as patched:
            patched.setattr(limits, name, value)
            with pytest.raises(Malformed):
                Aggregator.restore(checkpoint)


# --- the scheme itself ---------------------------------------------------------------------------


class Inner:
    STATE: ClassVar[Mapping[str, Any]] = {"number": int}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.number = 0


class Outer:
    """One attribute of each kind."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "column": ArrayColumn(np.float64),
        "rolls": list[tuple[float, NDArray[np.int64]]],
        "words": dict[str, int],
        "inner": PART,
        "listed": PARTS,
        "mapped": PARTS,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("sum",)

    def __init__(self, rows: int = 2) -> None:
        self.rows = rows
        self.column = np.full(4, -1.0)
        self.rolls: deque[tuple[float, NDArray[np.int64]]] = deque(maxlen=2)
        self.words: Counter[str] = Counter()
        self.inner = Inner()
        self.listed = [Inner(), Inner()]
        self.mapped = {"a": Inner()}
        self.sum = 0.0

    def __len__(self) -> int:
        return self.rows

    def restored(self) -> None:
        self.sum = float(self.column[: self.rows].sum())


def _moved(owner: Outer) -> Any:
    return msgspec.msgpack.decode(encode(save(owner)))


def _filled() -> Outer:
    outer = Outer()
    outer.column[:2] = [1.5, math.inf]
    outer.rolls.append((1.0, np.array([1, 2])))
    outer.words["w"] = 3
    outer.inner.number = 1
    outer.listed[1].number = 2
    outer.mapped["a"].number = 3
    return outer


def test_a_state_comes_back_in_the_containers_the_constructor_made() -> None:
    """A loaded state has the used part of each column and deques with their bounds.

    Derived values are computed anew.
    """
    outer = Outer()
    load(outer, _moved(_filled()))
    assert outer.column.tolist() == [1.5, math.inf, -1.0, -1.0]
    assert outer.rolls.maxlen == 2
    assert outer.rolls[0][1].tolist() == [1, 2]
    assert outer.words["unheard of"] == 0
    assert [outer.inner.number, outer.listed[1].number, outer.mapped["a"].number] == [1, 2, 3]
    assert outer.sum == math.inf


@pytest.mark.parametrize(
    "change",
    [
        {"column": ["<f8", b"1234567"]},
        {"column": ["<f8", b"12345678"]},
        {"column": ["<i8", bytes(16)]},
        {"column": ["O", bytes(16)]},
        {"column": bytes(16)},
        {"rolls": [[1.0, ["<f8", bytes(8)]]]},
        {"rolls": [["1", ["<i8", bytes(8)]]]},
        {"words": {"w": "many"}},
        {"inner": {}},
        {"inner": []},
        {"listed": [{"number": 1}]},
        {"listed": {0: {"number": 1}, 1: {"number": 1}}},
        {"mapped": {"b": {"number": 1}}},
        {"mapped": [{"number": 1}]},
        {"more": 1},
    ],
)
def test_what_does_not_fit_its_declaration_is_refused(change: dict[str, Any]) -> None:
    """Lengths, kinds and names."""
    with pytest.raises(ValueError):  # noqa: PT011 - the messages differ, the kind is the contract
        load(Outer(), {**_moved(_filled()), **change})


class Wide:
    """Counts of any width."""

    STATE: ClassVar[Mapping[str, Any]] = {"counts": NDArray[np.unsignedinteger[Any]]}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.counts: NDArray[np.unsignedinteger[Any]] = np.zeros(0, np.uint8)


@pytest.mark.parametrize("width", [np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("values", [[], [0, 254, 255, 256, 60_000], [255]])
def test_wide_counts_are_one_byte_each_while_they_are_small(
    values: list[int], width: type[np.unsignedinteger[Any]]
) -> None:
    """Small wide counts take one byte each and come back as they were.

    A load without the entries for larger counts is refused.
    """
    wide, other = Wide(), Wide()
    wide.counts = np.array(values, width)
    moved = msgspec.msgpack.decode(encode(save(wide)))
    assert len(moved["counts"][1]) == len(values)
    load(other, moved)
    assert other.counts.dtype == width
    assert other.counts.tolist() == values
    with pytest.raises(ValueError, match="entries, not"):
        load(Wide(), {"counts": [*moved["counts"][:2], bytes(99 * wide.counts.itemsize)]})


def test_truth_values_are_true_or_false() -> None:
    """Another byte in a column of them would be neither."""

    class Flags:
        STATE: ClassVar[Mapping[str, Any]] = {"flags": ArrayColumn(np.bool_)}
        DERIVED: ClassVar[tuple[str, ...]] = ()

        def __init__(self) -> None:
            self.flags = np.zeros(3, np.bool_)

        def __len__(self) -> int:
            return 3

    flags = Flags()
    load(flags, {"flags": ["|b1", b"\x00\x01\x07"]})
    assert flags.flags.view(np.uint8).tolist() == [0, 1, 1]


def test_what_nobody_declared_a_form_for_is_not_saved() -> None:
    """An object in the state is a mistake of ours."""
    with pytest.raises(NotImplementedError):
        encode({"x": object()})
