"""A backend that Prometheus scrapes: each scrape gets the newest snapshot."""

from __future__ import annotations

import errno
import gzip
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from telemetry import limits
from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import Item, Live, Step
from telemetry.backends.prometheus.families import HostFacts, families
from telemetry.backends.prometheus.formats import choose
from telemetry.backends.prometheus.names import NameClaim, Names, is_namespace
from telemetry.common.formatting import printable
from telemetry.store.append_file import describe
from telemetry.store.scrape_targets import ScrapeGroup, add_targets, default_folder, remove_targets
from telemetry.wire.events import Rank
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

PATH: Final = "/metrics"
_LEAVES_S: Final = 1.0
_COMPRESSION: Final = 1
_OWN_NAMES: Final = ("localhost",)
_OTHER_HOST: Final = (
    b"the Host header names another host: ask by address, or allow the name with the option names=...\n"
)
_HINT: Final = "choose another with port=…, or port=0 for any free port"
NONE: Final = "none"
"""Value of the option `targets` for a writer that adds itself to no folder."""
_ANYWHERE: Final = ("", "0.0.0.0", "::")
_ELSEWHERE: Final = ("192.0.2.1", 9)  # an address for documentation: no packet is sent to it
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
        self._server: PrometheusServer | None = None
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
        self._names = Names(msgspec.convert(state.get("names", []), list[NameClaim]), self._options.namespace)
        options = self._options
        names = options.names.replace("+", " ").split()
        may_change = options.auto_port or not options.port
        wanted = state.get("port", options.port) if may_change else options.port
        try:
            self._server = PrometheusServer(options.host, wanted, self._page, names)
        except NotConfigured:
            if not may_change:
                raise
            self._server = PrometheusServer(options.host, _ANY, self._page, names)
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

    def _page(self, accept: str) -> ServedPage | None:
        """Return the page for a scrape, or None before the first snapshot."""
        form = choose(accept)
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None:
                return None
            body = self._bodies.get(form.content_type)
            if body is None:
                beside = HostFacts(self._ranks, _disk(self._directory))
                body = form.encode(families(snapshot, self._host, self._names, self._options.buckets, beside))
                self._bodies[form.content_type] = body
        final = snapshot.state in TERMINAL
        return ServedPage(form.content_type, body, self._scraped.set if final else lambda: None)

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


def announce(option: str, host: str, port: int, run: RunFacts) -> Path | None:
    """Write the file of the writer that listens at `host` and `port`. Returns its path, None if there is no folder.

    `option`: the folder, `none` or empty for that of this user. Raises OSError.
    """
    folder = Path(option).expanduser() if option else default_folder()
    if option == NONE or folder is None:
        return None
    labels = {"run": run.run_id, "name": run.name, "host": run.host or socket.gethostname()}
    group = ScrapeGroup([reached_at(host, port)], labels)
    return add_targets(folder, f"run-{run.run_id}-{port}", [group])


def reached_at(host: str, port: int) -> str:
    """Return the address at which others reach a listener: that of this machine if it listens everywhere."""
    name = _own_address() if host in _ANYWHERE else host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _own_address() -> str:
    """Return the address that this machine uses for others; its name if it has none but loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
            address = str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
    return socket.gethostname() if ip_address(address).is_loopback else address


class ServedPage(NamedTuple):
    content_type: str
    body: bytes
    served: Callable[[], object]
    """Function to call once the page was sent."""


class PrometheusServer:
    """A server that listens from its creation until `close`. Its threads call `page` with an `Accept` header."""

    def __init__(
        self, host: str, port: int, page: Callable[[str], ServedPage | None], names: Sequence[str] = ()
    ) -> None:
        """Answer requests whose Host is this machine or in `names`. Raises NotConfigured without an address."""
        asked_for = frozenset(name.lower() for name in (*_OWN_NAMES, host, socket.gethostname(), *names))
        handler = type("_Handler", (_Handler,), {"page": staticmethod(page), "names": asked_for})
        try:
            self._server = _Listener(host, port, handler)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            problem = "is in use" if taken else f"is not available: {describe(error)}"
            raise NotConfigured(
                f"prometheus: port {port} of {host} {problem}", hint=_HINT if taken else ""
            ) from error
        self.port: int = self._server.server_address[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.port}{PATH}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="telemetry-prometheus", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Blocks for 0.1 s, and up to a second for open requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server.leave(_LEAVES_S)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, handler: Any) -> None:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = addresses[0][0]
        self._room = threading.BoundedSemaphore(limits.PROMETHEUS_SCRAPES)
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without a lookup of this host's name, which may be slow."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def leave(self, timeout_s: float) -> None:
        """Wait until all open requests have ended, or until the timeout."""
        until_s = time.monotonic() + timeout_s
        for _ in range(limits.PROMETHEUS_SCRAPES):
            self._room.acquire(timeout=max(0.0, until_s - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects during an answer."""


class _Handler(BaseHTTPRequestHandler):
    timeout = limits.PROMETHEUS_CLIENT_S
    server_version = "telemetry"
    sys_version = ""
    page: Callable[[str], ServedPage | None]
    names: frozenset[str] = frozenset(_OWN_NAMES)

    def do_GET(self) -> None:
        if not self._is_asked_for():
            self._send(421, "text/plain; charset=utf-8", _OTHER_HOST)
            return
        path = self.path.partition("?")[0]
        if path == "/":
            self._send(200, "text/plain; charset=utf-8", f"a run of telemetry: {PATH}\n".encode())
            return
        if path != PATH:
            self.send_error(404)
            return
        page = self.page(self.headers.get("Accept", ""))
        if page is None:
            self.send_error(503, "no snapshot yet")
            return
        if self._send(200, page.content_type, page.body):
            page.served()

    def _is_asked_for(self) -> bool:
        """Check whether the Host header is one of our names or an IP address.

        This keeps other web sites out: their pages send their own name, even if that name resolves to this machine.
        """
        asked = self.headers.get("Host", "").strip().lower()
        host = asked[1:].partition("]")[0] if asked.startswith("[") else asked.partition(":")[0]
        if not asked or "*" in self.names or host in self.names:
            return True
        try:
            ip_address(host)
        except ValueError:
            return False
        return True

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log line of a request."""

    def _send(self, status: int, content_type: str, body: bytes) -> bool:
        """Send an answer. Returns True if it was sent."""
        zipped = "gzip" in self.headers.get("Accept-Encoding", "")
        data = gzip.compress(body, _COMPRESSION) if zipped else body
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            if zipped:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(data)
            return True
        return False
