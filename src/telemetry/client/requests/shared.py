"""State that all instruments of a kind of request share, and the interface of the process that they need."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from telemetry.client.catalog import Catalog
from telemetry.client.recorders import Recorders
from telemetry.client.requests.ended import EndedLog
from telemetry.client.tally import HitCounter

R = TypeVar("R")
"""A request in flight. Its class comes later: it holds a `Family`."""


class Host(Protocol):
    """Interface of the process, as requests use it."""

    catalog: Catalog
    recorders: Recorders
    unencodable: HitCounter
    endpoint: str

    @property
    def state(self) -> str:
        """State of the process. `idle` means that no events are recorded."""
        ...

    def put_record(self, make: Callable[[], bytes]) -> None: ...


@dataclass(frozen=True)
class KindState(Generic[R]):
    """State shared by all families of a kind of request."""

    open: dict[R, R] = field(default_factory=dict)
    """Requests in flight, in order of issue. The thread that pops a request is the only one that ends it."""
    by_key: dict[Hashable, R] = field(default_factory=dict)
    """Requests in flight that have a key."""
    values: dict[str, set[str]] = field(default_factory=dict)
    """Known values of each label that only some instruments have."""
    said: set[str] = field(default_factory=set)
    """Subjects of the warnings printed so far. Each warning is printed once."""
    log: EndedLog = field(default_factory=EndedLog)
