"""The backend that Prometheus asks: whatever is newest when it comes by."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import Item, Live
from telemetry.backends.prometheus.families import families
from telemetry.backends.prometheus.formats import choose
from telemetry.backends.prometheus.names import Claim, Names
from telemetry.backends.prometheus.server import Page, Server
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_ANY: Final = 0
_UNTOLD_S: Final = 1.0  # of waiting for the last scrape; longer ones are said


class PrometheusOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    port: Annotated[int, Meta(ge=0, le=65_535)] = 9599
    """0: any that is free; a writer that is started again takes the same."""
    host: str = "127.0.0.1"
    """Of the interface it listens at. Whoever reaches another than this may read all numbers."""
    names: str = ""
    """More host names that scrapers may ask by, separated by `+`; `*` allows any. Addresses, `localhost` and the
    name of this machine are allowed always."""
    linger: Annotated[float, Meta(ge=0.0, le=50.0)] = 15.0
    """Seconds after the run's end for the final values to be scraped once."""
    buckets: Literal[1, 2, 4] = 4
    """Upper bounds of a classic histogram to each doubling."""


class PrometheusBackend:
    """Serves the newest snapshot. After the last one has been scraped, or `linger` seconds, the address is gone, so
    that a run that is over haunts no dashboard."""

    Options: ClassVar[type[Struct]] = PrometheusOptions
    takes: ClassVar[tuple[type[Item], ...]] = (Live,)
    idempotent: ClassVar[bool] = True

    say: Callable[[str], object]

    def __init__(self, options: PrometheusOptions, place: Path) -> None:
        self.say = print
        self._options = options
        self._host = ""
        self._server: Server | None = None
        self._port = _ANY
        self._lock = threading.Lock()
        """Of all that follows: scrapes come in threads of their own."""
        self._names = Names()
        self._snapshot: MetricsSnapshot | None = None
        self._bodies: dict[str, bytes] = {}
        """Content type → the newest snapshot in that format."""
        self._scraped = threading.Event()
        """Set once the final values went out."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self.close(final=False)
        self._host = run.host
        self._names = Names(msgspec.convert(state.get("names", []), list[Claim]))
        options = self._options
        names = options.names.replace("+", " ").split()
        try:
            self._server = Server(options.host, options.port or state.get("port", _ANY), self._page, names)
        except NotConfigured:
            if options.port:
                raise
            self._server = Server(options.host, _ANY, self._page, names)
        self._port = self._server.port

    def write(self, items: Sequence[Item]) -> None:
        newest = [item for item in items if isinstance(item, Live)][-1:]
        with self._lock:
            for item in newest:
                self._snapshot, self._bodies = item.snapshot, {}

    def flush(self) -> None:
        """There is nothing to outlive this process: the next one is given the newest snapshot."""

    def state(self) -> dict[str, Any]:
        with self._lock:
            return {"port": self._port, "names": self._names.claims()}

    def close(self, *, final: bool) -> None:
        if self._server is None:
            return
        if final and self._is_final():
            self._linger()
        self._server.close()
        self._server = None

    def _linger(self) -> None:
        linger_s = self._options.linger
        if self._scraped.wait(min(linger_s, _UNTOLD_S)):
            return
        if linger_s > _UNTOLD_S:
            self.say(f"waits up to {linger_s:g} s for the final values to be scraped")
        if not self._scraped.wait(max(0.0, linger_s - _UNTOLD_S)):
            self.say(f"nobody has scraped the final values within {linger_s:g} s")

    def where(self) -> str:
        return self._server.address if self._server is not None else ""

    # --- threads of scrapes --------------------------------------------------------------------------

    def _page(self, accept: str) -> Page | None:
        """None before the first snapshot."""
        form = choose(accept)
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None:
                return None
            body = self._bodies.get(form.content_type)
            if body is None:
                body = form.encode(families(snapshot, self._host, self._names, self._options.buckets))
                self._bodies[form.content_type] = body
        final = snapshot.state in TERMINAL
        return Page(form.content_type, body, self._scraped.set if final else lambda: None)

    def _is_final(self) -> bool:
        with self._lock:
            return self._snapshot is not None and self._snapshot.state in TERMINAL
