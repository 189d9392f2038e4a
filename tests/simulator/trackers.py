"""A tracker, and the process of a writer that delivers a run to it: what it reads, keeps and does is the real code.

The tracker is a service elsewhere, which outlives all processes. The writer reads the run from its aggregator while
there is one, and from its directory.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec
from tests.simulator.checks import hold
from tests.simulator.network import Network
from tests.simulator.world import SECOND_NS, Process, World

from telemetry import limits
from telemetry.backends.backend import Refused, Unavailable
from telemetry.backends.items import Item, Mark, Reading, Span, Step
from telemetry.backends.sources.open import open_source
from telemetry.backends.sources.source import Position
from telemetry.backends.writer.delivery import Delivery, Ending
from telemetry.backends.writer.reader import RunReader
from telemetry.backends.writer.tally import WriterTally
from telemetry.config.schema import Config
from telemetry.errors import TelemetryError
from telemetry.store.backends import Unconfirmed, WriterFolder, writer_folder
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import MetricsSnapshot

if TYPE_CHECKING:
    from tests.simulator.runs import SimulatedRun

_KINDS: Final[dict[str, type[Item]]] = {"mark": Mark, "step": Step, "span": Span}
"""Type of a line of the record log → kind of its item. Lines of other types are no items."""
_PATIENCE: Final = 40
_PASSING: Final = (Unavailable("away"), OSError(104, "connection reset"), RuntimeError("odd"))


class Copy:
    """An item that the tracker has taken, once."""

    def __init__(self, item: Item, sender: Process) -> None:
        self.item = item
        self.sender = sender
        self.is_flushed = False
        """True once the sender knows that the tracker has it."""


class Tracker:
    """A service that keeps a list of items. It may be away, refuse items, or fail after it has taken some."""

    def __init__(
        self, world: World, *, idempotent: bool, takes: tuple[type[Item], ...], trouble: float, refusals: float
    ) -> None:
        """Begin empty. `trouble`: chance that a request fails. `refusals`: chance that an item is never taken."""
        self.idempotent = idempotent
        self.takes = takes
        self.trouble = trouble
        self.copies: list[Copy] = []
        self.away_until_ns = 0
        self.blamed: set[str] = set()
        """Keys of items that failed alone, so that a writer may hold them for refused."""
        self.kill_in: int | None = None
        """Number of requests until the sender of one dies in it."""
        self._world = world
        self._refusals = refusals
        self._verdicts: dict[str, str] = {}

    def heal(self) -> None:
        """Let nothing fail any more, except items that are never taken."""
        self.trouble, self.away_until_ns, self.kill_in = 0.0, 0, None

    def be_away(self) -> None:
        """Answer nothing for a while."""
        self.away_until_ns = self._world.now_ns + self._world.random.randrange(20 * SECOND_NS)
        self._world.tell("tracker", "is away for a while")

    @property
    def items(self) -> dict[str, Item]:
        """The items by key, in the order in which they came first."""
        items: dict[str, Item] = {}
        for copy in self.copies:
            items[copy.item.key] = copy.item
        return items

    def verdict(self, key: str) -> str:
        """Return the reason for which an item is never taken; empty if it is."""
        if key not in self._verdicts:
            reason = self._world.random.choice(("too_large", "broken"))
            self._verdicts[key] = reason if self._world.random.random() < self._refusals else ""
        return self._verdicts[key]

    @property
    def refused(self) -> set[str]:
        return {key for key, verdict in self._verdicts.items() if verdict}

    def request(self, sender: Process, items: Sequence[Item]) -> list[Copy]:
        """Take items, as the service does. Raises any error. Its sender may die before, in or after it."""
        random = self._world.random
        error = random.choice(_PASSING) if random.random() < self.trouble else None
        dies = self.kill_in == 0
        self.kill_in = None if dies or self.kill_in is None else self.kill_in - 1
        self._world.sleep(random.choice((0.001, 0.02, 0.5)) * random.random())
        if self._world.now_ns < self.away_until_ns:
            raise Unavailable("away", random.choice((0.0, 3.0)))
        count = random.randint(0, len(items)) if error is not None or dies else len(items)
        copies = [Copy(item, sender) for item in items[:count]]
        self.copies += copies
        if dies:
            sender.kill()
        self._world.sleep(random.choice((0.001, 0.02)))
        if error is not None:
            if random.random() < 0.02:
                self._world.current.wait(None)  # it never answers
            raise error
        return copies


class TrackerLibrary:
    """The library of the tracker in a writer's process, as a `Backend`. It may send items before a flush."""

    def __init__(self, world: World, tracker: Tracker, process: Process) -> None:
        self.takes = tracker.takes
        self.idempotent = tracker.idempotent
        self._world = world
        self._tracker = tracker
        self._process = process
        self._unsent: list[Item] = []
        self._sent: list[Copy] = []
        self._flushed = 0

    def open(self, _run: object, state: dict[str, Any]) -> None:
        self._flushed = state.get("flushed", 0)
        if self._world.now_ns < self._tracker.away_until_ns:
            raise Unavailable("away")

    def write(self, items: Sequence[Item]) -> None:
        verdicts = {item.key: self._tracker.verdict(item.key) for item in items}
        if len(items) == 1:
            self._tracker.blamed.add(items[0].key)
        if "broken" in verdicts.values():
            raise ValueError("it can't be encoded")
        self._unsent = [item for item in items if not verdicts[item.key]]
        self._sent = []
        self._send(self._world.random.choice((0, len(self._unsent) // 2)))
        if refused := [key for key, verdict in verdicts.items() if verdict]:
            raise Refused("too_large", refused)

    def flush(self) -> None:
        self._send(len(self._unsent))
        for copy in self._sent:
            copy.is_flushed = True
        self._flushed += len(self._sent)
        self._sent = []

    def state(self) -> dict[str, Any]:
        return {"flushed": self._flushed}

    def close(self, *, final: bool) -> None:
        if final and self._world.now_ns < self._tracker.away_until_ns:
            raise Unavailable("away")

    def where(self) -> str:
        return "elsewhere"

    def _send(self, count: int) -> None:
        items, self._unsent = self._unsent[:count], self._unsent[count:]
        if items:
            self._sent += self._tracker.request(self._process, items)


class SimulatedWriter:
    """The writer of a tracker: one process after the other, each of which goes on at the checkpoint.

    A process has a while after the run is over. Then nothing fails any more, and a last one delivers the rest.
    """

    def __init__(self, world: World, network: Network, run: SimulatedRun, tracker: Tracker, kills: int) -> None:
        """Prepare without a process. So many processes will be killed."""
        self.tracker = tracker
        self.process: Process | None = None
        """The newest process."""
        self.ending: Ending | None = None
        """How the newest process ended; None if it still runs or has died."""
        self.why = ""
        """Last error of the newest process."""
        self.ended: list[Process] = []
        """The processes that were not killed."""
        self.is_over = False
        self._is_last = False
        self._patience = _PATIENCE
        """Number of seconds after the end of the run that the process still has."""
        self._world = world
        self._network = network
        self._run = run
        self._kills = kills
        self._reads_live = world.random.random() < 0.6
        self._every_s = world.random.choice((1.0, 2.0, 10.0))
        self._machine = world.machine("writer")
        self._starts = 0

    @property
    def folder(self) -> WriterFolder:
        return writer_folder(self.directory.path, "tracker")

    @property
    def directory(self) -> RunDirectory:
        directory = self._run.directory
        assert directory is not None
        return directory

    def start(self) -> None:
        """Start a process, which goes on where the one before it ended, and later others if it dies."""
        world, random = self._world, self._world.random
        if self._run.directory is None:
            self.is_over = self._run.is_over
            world.after(SECOND_NS // 10, self.start)
            return
        self._is_last = self._run.is_over
        if self._is_last:
            self.tracker.heal()
        self.ending, self._patience = None, _PATIENCE
        process = self.process = world.process(f"writer {self._starts}", self._machine)
        self._starts += 1
        process.at_death.append(self._after_death)
        process.start(self._main)
        if self._starts == 1:
            self._watch()
        if self._kills and not self._is_last:
            self._kills -= 1
            if random.random() < 0.5:
                world.after(random.randrange(10 * SECOND_NS), process.kill)
            else:
                self.tracker.kill_in = random.randrange(5)

    def _watch(self) -> None:
        self._patience -= self._run.is_over
        if not self.is_over:
            self._world.after(SECOND_NS, self._watch)

    def _after_death(self) -> None:
        self.is_over = self._is_last or self.folder.read_checkpoint().done
        if not self.is_over:
            self._world.after(self._world.random.randrange(1, 3 * SECOND_NS), self.start)

    def _main(self) -> None:
        process = self._world.current.process
        try:
            self.ending = self._deliver(process)
        except TelemetryError as error:
            self.why = str(error)
        self._world.tell(process.name, f"ends: {self.ending or 'failed'} {self.why}")
        self.ended.append(process)
        process.end()

    def _deliver(self, process: Process) -> Ending:
        world = self._world
        self.folder.make()
        checkpoint = self.folder.read_checkpoint()
        if checkpoint.done:
            return "done"
        position = msgspec.convert(checkpoint.position, Position)
        tally = WriterTally("tracker", "list", checkpoint.counts, clock=time.monotonic, chance=world.random.random)
        is_live = self._reads_live and not self._network.refuses(self._run.endpoint)
        source = open_source(
            "tracker",
            position,
            Config(),
            endpoint=self._run.endpoint if is_live else "",
            directory=RunDirectory.open(self.directory.path),
            every_s=self._every_s,
        )
        ahead = Unconfirmed(self.folder.ahead)
        process.at_death.append(ahead.close)

        def say(text: str) -> None:
            world.tell(process.name, text)

        reader = RunReader(source, say)
        library: Any = TrackerLibrary(world, self.tracker, process)
        delivery = Delivery(
            library,
            reader,
            tally,
            self.folder.write_checkpoint,
            ahead,
            guard=self._guard,
            stopped=lambda: self._patience <= 0,
            say=say,
            clock=time.monotonic,
            pause=world.sleep,
        )
        reader.start()
        ending = delivery.run(source.run, checkpoint)
        reader.close()
        self.why = tally.last_error
        return ending

    @contextmanager
    def _guard(self, seconds: float | None = None) -> Iterator[None]:
        """End the process if a call takes too long."""
        process, is_over = self._world.current.process, False

        def end() -> None:
            if not is_over:
                process.kill()

        self._world.after(round((seconds or limits.BACKEND_CALL_S) * SECOND_NS), end)
        try:
            yield
        finally:
            is_over = True


@contextmanager
def small_batches(random: Random) -> Iterator[None]:
    """Let writers have bounds that a story reaches."""
    before = limits.BACKEND_BATCH_ITEMS, limits.BACKEND_QUEUE_ITEMS
    limits.BACKEND_BATCH_ITEMS, limits.BACKEND_QUEUE_ITEMS = (
        random.choice((3, 10, 1_000)),
        random.choice((5, 10_000)),
    )
    try:
        yield
    finally:
        limits.BACKEND_BATCH_ITEMS, limits.BACKEND_QUEUE_ITEMS = before


# --- what must hold ------------------------------------------------------------------------------------


def check_tracker(
    writer: SimulatedWriter,
    snapshot: MetricsSnapshot | None,
    *,
    is_whole: bool,
    has_history: bool,
) -> None:
    """Check what the tracker has against the record log, the result, and what the writer says.

    `is_whole` is False if a fault of the disk or of power may have taken records. `has_history` is False if the
    aggregator may have died before it had written the end of the history.
    """
    tracker, items, refused = writer.tracker, writer.tracker.items, writer.tracker.refused
    maybe_refused = refused | tracker.blamed
    checkpoint = writer.folder.read_checkpoint()
    position, counts = msgspec.convert(checkpoint.position, Position), checkpoint.counts
    logged = {f"r{line['seq']}": line for line in _lines(writer.directory.path) if line["type"] in _KINDS}
    taken = {key: line for key, line in logged.items() if issubclass(_KINDS[line["type"]], tracker.takes)}
    passed = {key for key in taken if int(key[1:]) < position.next_record}
    seen = {key for key in items.keys() | maybe_refused if key[0] == "t"}
    readings = {key for key in seen if int(key[1:]) <= position.reading_until_ns}
    unsure = readings.difference(copy.item.key for copy in tracker.copies if copy.sender in writer.ended)
    passed |= readings | ({"final"} if position.final_done and Reading in tracker.takes else set())
    dropped = sum(counts.dropped.values())
    surplus = len(passed) - counts.written - dropped
    if is_whole:
        lost = sorted(passed - readings - items.keys() - maybe_refused)
        hold(not lost, f"{lost} are missing, and the writer is behind them")
        least, most = len(passed & refused - unsure), len(passed & maybe_refused)
        hold(least <= dropped <= most, f"{dropped} items are dropped, and {least} to {most} were refused")
        hold(0 <= surplus <= len(unsure), f"{counts.written} + {dropped} of {len(passed)} items are counted")
        homeless = sum(int(key[1:]) < position.next_record for key in logged if key not in taken)
        placeless = sum(number for kind, number in counts.no_place.items() if kind != "reading")
        hold(placeless == homeless, f"{placeless} items have no place, not {homeless}")
        strangers = sorted(key for key in items if key[0] == "r" and key not in taken)
        hold(not strangers, f"{strangers} are in the tracker, and not in the record log")
        for key in items.keys() & taken.keys():
            for name in {"text", "values"} & taken[key].keys():
                there: Any = getattr(items[key], name)
                if name == "values":  # the log has null for a value that is not finite
                    there = {of: None if str(value) == "nan" else value for of, value in there.items()}
                hold(there == taken[key][name], f"{key} has other {name} than in the record log")
    for letter in "rt":
        order = [int(key[1:]) for key in items if key[0] == letter]
        hold(order == sorted(order), f"items are not in order: {order}")
    hold("final" not in list(items)[:-1], "there are items after the result")
    _check_copies(writer, counts.repeated, checkpoint.serial if is_whole else None)
    if writer.ending != "done" and not checkpoint.done:
        return
    hold(checkpoint.done and position.final_done, "done, and the checkpoint says otherwise")
    provisional = {key for key in tracker.blamed if key[0] == "t"}  # of an interval that went on after a restart
    left, absent = sorted(taken.keys() - passed), sorted(passed - items.keys() - provisional)
    hold(not left and len(absent) <= dropped, f"done without {left + absent}, and {dropped} items are dropped")
    final = items.get("final")
    if isinstance(final, Reading) and snapshot is not None:
        shown = {each.name: each.value for each in final.counters}
        hold(shown == {each.name: each.value for each in snapshot.counters}, f"another result: {shown}")
        if is_whole and not surplus and not absent:
            whole, parts = _values([final]), _values(item for item in items.values() if item is not final)
            is_kept = parts == whole if has_history else parts <= whole
            hold(is_kept, f"the readings have {parts}, and the result {whole}")


def _lines(directory: Path) -> list[dict[str, Any]]:
    """Return the complete lines of the record log, without its header."""
    path = directory / "records" / "records.jsonl"
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[1:-1]] if path.exists() else []


def _values(items: Iterable[Item]) -> Counter[str]:
    """Return the number of values of each series in readings."""
    numbers: Counter[str] = Counter()
    for reading in (item for item in items if isinstance(item, Reading)):
        numbers.update({series.name: series.count for series in reading.series})
    return numbers


def _check_copies(writer: SimulatedWriter, repeated: int, serial: int | None) -> None:
    """Check that an item comes again only if its request failed, or if a death is counted.

    `serial` is the number of the checkpoint; None if a disk without room may have lost the count.
    """
    tracker, again = writer.tracker, 0
    copies: dict[str, list[Copy]] = {}
    for copy in tracker.copies:
        copies.setdefault(copy.item.key, []).append(copy)
    for key, same in copies.items():
        hold(len({_content(copy.item) for copy in same}) == 1, f"{key} came again with other content")
        in_vain = [copy for copy, later in pairwise(same) if copy.sender is later.sender and copy.is_flushed]
        hold(not in_vain, f"{key} came twice from one process, which knew that it was there")
        again += len({copy.sender for copy in same}) > 1
    if tracker.idempotent:
        hold(not repeated, f"{repeated} are repeated, and the tracker recognizes all")
    elif serial is not None:
        ahead = Unconfirmed(writer.folder.ahead).read(serial)
        hold(again <= repeated + ahead, f"{again} items came again after a death, and {repeated + ahead} count")


def _content(item: Item) -> bytes:
    """Return what does not depend on when an item is read. A reading at the end of a dead run may go on later."""
    values: Any = (item.series, item.counters) if isinstance(item, Reading) else item
    return msgspec.msgpack.encode(values)
