"""A root and leaves with real numbers and journals. Their messages are encoded and decoded, without sockets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.node_search import SearchChannel
from telemetry.daemon.upstream.search import LeafSearch
from telemetry.store.journal import JournalWriter
from telemetry.testing import frame
from telemetry.wire.codec import decode_batch, decode_request, decode_response, encode_control
from telemetry.wire.control import Error, Hello, Noted, Request
from telemetry.wire.events import Define
from telemetry.wire.nodes import Found, Search

KEYS = ("50", "90", "99.9")
NOW_NS = 1_000_000_000_000
SECOND_NS = 1_000_000_000

Values = Mapping[str, Sequence[float]]


class Place:
    """An aggregator with a journal: a root, a leaf, or both."""

    def __init__(
        self, folder: Path, name: str, *, leaf: bool = True, definition: Mapping[str, int] | None = None
    ) -> None:
        self.name = name
        self.folder = folder / name
        self.journal = JournalWriter(self.folder, b"", NOW_NS)
        self.aggregator = Aggregator(AggregatorConfig(percentiles=KEYS, leaf=leaf))
        self.values: dict[str, list[float]] = {}
        self.channel = SearchChannel(self._push)
        self.places: dict[str, Place] = {}
        """Leaves of this root by id that can be reached."""
        self.search = LeafSearch(name, self._send)
        self.lose: Callable[[Search | Found], bool] = lambda message: False
        """Decides which messages get lost on the way."""
        self.busy = 0
        """Number of answers that are refused because too many wait."""
        self.change: Callable[[Found], Found] = lambda found: found
        self.sent: list[Search | Found] = []
        self._root: Place | None = None
        self._definition = definition or {}
        self._batches: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._rolls = 0

    # --- values ----------------------------------------------------------------------------------

    def record(self, values: Values, producer: str = "p") -> None:
        """Values of a producer, in the journal and in the numbers."""
        defines = [Define(number, name, "series", "ms", **self._definition) for number, name in enumerate(values)]
        rows = [(number, NOW_NS, value) for number, name in enumerate(values) for value in values[name]]
        self.take(producer, defines, rows)
        for name, more in values.items():
            self.values.setdefault(name, []).extend(more)

    def take(self, producer: str, records: Sequence[object], rows: Sequence[tuple[float, int, float]] = ()) -> None:
        seq, first = self._batches.get(producer, 0), self._events.get(producer, 0)
        data = bytes(frame(producer, seq, first, records=records, rows=rows))  # type: ignore[arg-type]
        self._batches[producer] = seq + 1
        self._events[producer] = first + len(rows) + sum(not isinstance(record, Define) for record in records)
        batch = decode_batch(data)
        assert self.aggregator.admit(batch, NOW_NS)
        self.journal.append([data], NOW_NS)
        self.aggregator.apply([batch], NOW_NS, NOW_NS)

    def join(self, root: Place) -> None:
        """Become a node of the root, with all values so far."""
        self._root = root
        root.places[self.name] = self
        assert root.aggregator.hello(Hello(producer=self.name, node=f"gpu-{self.name}"), NOW_NS, NOW_NS)
        self.report()

    def report(self) -> None:
        """End an interval and send its sums to the root."""
        assert self._root is not None
        self._rolls += 1
        self.aggregator.roll(NOW_NS, NOW_NS + SECOND_NS, SECOND_NS)
        interval = self.aggregator.leaf.take_interval()
        assert interval is not None
        self._root.take(self.name, interval.records(self._rolls, NOW_NS, NOW_NS + SECOND_NS, 1 << 20))

    def close_books(self) -> None:
        self.journal.close()
        self.search.open(self.aggregator, self.folder, channel=self.channel)

    def close(self) -> None:
        self.search.close()
        self.journal.close()

    # --- messages --------------------------------------------------------------------------------

    def _push(self) -> None:
        """Send the messages that wait, as the loop of a root does."""
        for leaf, search in self.channel.outgoing():
            self.sent.append(search)
            if leaf in self.places and not self.lose(search):
                self.places[leaf].search.take(decode_response(encode_control(search)))

    def _send(self, request: Request) -> None:
        """Send a request and take the root's answer, as the connection of a leaf does."""
        assert self._root is not None
        found = decode_request(encode_control(request))
        assert isinstance(found, Found)
        found = self.change(found)
        self.sent.append(found)
        if self.lose(found) or self.name not in self._root.places:
            return
        if self._root.busy:
            self._root.busy -= 1
            self.search.take(Error(id=found.id, code="unavailable", message="later"))
        elif self._root.channel.deliver(found):
            self.search.take(Noted(id=found.id, state="DRAINING"))
        else:
            self.search.take(Error(id=found.id, code="unavailable", message="later"))


def order_statistics(*places: Place) -> dict[str, dict[str, float]]:
    """The percentiles of the values of all places, by sorting."""
    found = {}
    for name in {name for place in places for name in place.values}:
        values = sorted(value for place in places for value in place.values.get(name, ()))
        ranks = {key: math.ceil(round(float(key) * 1_000) * len(values) / 100_000) for key in KEYS}
        found[name] = {key: values[rank - 1] for key, rank in ranks.items()}
    return found
