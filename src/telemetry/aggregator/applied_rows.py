"""Applied rows as an observer of the aggregator sees them: value by value, with instrument, producer and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.batch_group import KindRows
from telemetry.wire.events import Kind


class ProducerFacts(NamedTuple):
    """The identity of a producer. All but the key is empty before its hello."""

    key: str
    name: str
    host: str
    pid: int
    rank: int | None


class AppliedRows(NamedTuple):
    """Values of one kind that were just applied. Valid during the call of the observer."""

    kind: Kind
    part: KindRows
    shift_ns: int
    """Total step of the wall clock since the run began."""

    @property
    def indices(self) -> NDArray[np.intp]:
        """Indices of the instruments, unique within the kind."""
        return self.part.indices

    @property
    def values(self) -> NDArray[np.float64]:
        return self.part.values

    def wall_times(self) -> NDArray[np.int64]:
        """Return the time of each value in Unix nanoseconds."""
        return self.part.wall_times() + self.shift_ns

    def producers(self) -> list[ProducerFacts]:
        """Return the producers that `owners` points to."""
        owners = (row_range.producer for row_range in self.part.group.row_ranges)
        return [
            ProducerFacts(producer.key, producer.name, producer.host, producer.pid, producer.rank)
            for producer in owners
        ]

    def owners(self) -> NDArray[np.intp]:
        """Return the position of each value's producer."""
        owners = self.part.group.owners()
        return owners if self.part.at is None else owners.take(self.part.at)


Observer = Callable[[AppliedRows], None]
