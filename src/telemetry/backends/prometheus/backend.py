"""A backend that Prometheus scrapes: each scrape gets the newest snapshot."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import Item, Live, Step
from telemetry.backends.prometheus.families import families
from telemetry.backends.prometheus.formats import choose
from telemetry.backends.prometheus.names import Claim, Names, is_namespace
from telemetry.backends.prometheus.run_families import Beside
from telemetry.backends.prometheus.server import Page, Server
from telemetry.backends.prometheus.targets import announce
from telemetry.formatting import printable
from telemetry.store.append_file import describe
from telemetry.store.scrape_targets import remove_targets
from telemetry.wire.events import Rank
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_ANY: Final = 0
_UNTOLD_S: Final = 1.0  # wait for the last scrape without a message


class PrometheusOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    port: Annotated[int, Meta(ge=0, le=65_535)] = 9599
    """Port to listen on. 0: any free port; a restarted writer uses the same one."""
    auto_port: bool = False
    """True to listen on any free port if `port` is in use."""
    host: str = "127.0.0.1"
    """Address of the interface to listen on. Clients that can reach it can read all numbers."""
    names: str = ""
    """Additional host names that scrapers may use in requests, separated by `+`; `*` allows any.

    IP addresses, `localhost` and the name of this machine are always allowed.
    """
    linger: Annotated[float, Meta(ge=0.0, le=50.0)] = 15.0
    """Seconds to wait after the run's end until the final values have been scraped once."""
    buckets: Literal[1, 2, 4] = 4
    """Upper bounds of a classic histogram for each doubling."""
    namespace: str = ""
    """Word before the names of instruments: `NAMESPACE_requests_total`.

    With it, the newest values of steps are gauges of their own names as well.
    """
    targets: str = ""
    """Folder in which Prometheus finds this writer; `none`: no folder.

    By default it is the folder that `telemetry stack` reads.
    """


class PrometheusBackend:
    """The Prometheus backend. It serves the newest snapshot.

    It stops listening once the last snapshot has been scraped, or after `linger` seconds, so that a finished run
    disappears from dashboards.
    """

    Options: ClassVar[type[Struct]] = PrometheusOptions
    takes: ClassVar[tuple[type[Item], ...]] = (Live, Step)
    idempotent: ClassVar[bool] = True

    say: Callable[[str], object]

    def __init__(self, options: PrometheusOptions, place: Path) -> None:
        if options.namespace and not is_namespace(options.namespace):
            raise NotConfigured(
                f"prometheus: {printable(options.namespace)!r} can't be a namespace",
                hint="use letters, digits and `_`, and don't begin with a digit, `U__` or `telemetry`",
            )
        self.say = print
        self._options = options
        self._host = ""
        self._directory: Path | None = None
        self._server: Server | None = None
        self._target_file: Path | None = None
        self._port = _ANY
        self._lock = threading.Lock()
        """Lock for the fields below, because scrapes run in other threads."""
        self._names = Names(namespace=options.namespace)
        self._snapshot: MetricsSnapshot | None = None
        self._ranks: dict[str, dict[str, list[tuple[Rank, float]]]] = {}
        """Axis → name → values of the ranks in the newest step that has them."""
        self._bodies: dict[str, bytes] = {}
        """Content type → newest snapshot in that format."""
        self._scraped = threading.Event()
        """Event that is set once the final values were sent."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self.close(final=False)
        self._host = run.host
        self._directory = run.directory
        self._names = Names(msgspec.convert(state.get("names", []), list[Claim]), self._options.namespace)
        options = self._options
        names = options.names.replace("+", " ").split()
        may_change = options.auto_port or not options.port
        wanted = state.get("port", options.port) if may_change else options.port
        try:
            self._server = Server(options.host, wanted, self._page, names)
        except NotConfigured:
            if not may_change:
                raise
            self._server = Server(options.host, _ANY, self._page, names)
        self._port = self._server.port
        if options.auto_port and self._port != options.port:
            self.say(f"port {options.port} is in use, so the metrics are at {self._server.address}")
        try:
            self._target_file = announce(options.targets, options.host, self._port, run)
        except OSError as error:
            self.say(f"Prometheus does not find this run by itself: can't write its target: {describe(error)}")

    def write(self, items: Sequence[Item]) -> None:
        with self._lock:
            for item in items:
                if isinstance(item, Live):
                    self._snapshot, self._bodies = item.snapshot, {}
                elif isinstance(item, Step) and item.ranks:
                    self._ranks.setdefault(item.axis, {}).update(item.ranks)

    def flush(self) -> None:
        """Return at once: the next process gets the newest snapshot anyway."""

    def state(self) -> dict[str, Any]:
        with self._lock:
            return {"port": self._port, "names": self._names.claims()}

    def close(self, *, final: bool) -> None:
        if self._server is None:
            return
        if final and self._is_final():
            self._linger()
        if self._target_file is not None:  # first, so that Prometheus does not ask a closed port
            remove_targets(self._target_file)
            self._target_file = None
        self._server.close()
        self._server = None

    def _linger(self) -> None:
        linger_s = self._options.linger
        if self._scraped.wait(min(linger_s, _UNTOLD_S)):
            return
        if linger_s > _UNTOLD_S:
            self.say(f"waits up to {linger_s:g} s for the final values to be scraped")
        if not self._scraped.wait(max(0.0, linger_s - _UNTOLD_S)) and linger_s:
            self.say(f"the final values were not scraped within {linger_s:g} s")

    def where(self) -> str:
        return self._server.address if self._server is not None else ""

    # --- scrape threads ------------------------------------------------------------------------------

    def _page(self, accept: str) -> Page | None:
        """Return the page for a scrape, or None before the first snapshot."""
        form = choose(accept)
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None:
                return None
            body = self._bodies.get(form.content_type)
            if body is None:
                beside = Beside(self._ranks, _disk(self._directory))
                body = form.encode(families(snapshot, self._host, self._names, self._options.buckets, beside))
                self._bodies[form.content_type] = body
        final = snapshot.state in TERMINAL
        return Page(form.content_type, body, self._scraped.set if final else lambda: None)

    def _is_final(self) -> bool:
        with self._lock:
            return self._snapshot is not None and self._snapshot.state in TERMINAL


def _disk(directory: Path | None) -> tuple[int, int] | None:
    """Return free bytes and size of the disk with a directory; None if it can't be read."""
    if directory is None:
        return None
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return None
    return usage.free, usage.total
