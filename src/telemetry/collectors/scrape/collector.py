"""The collector `scrape`.

telemetry run --collect 'scrape:url=localhost:8000,metrics=vllm:*,as=vllm' -- CMD
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Struct

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.collectors.collector import NotConfigured, Target
from telemetry.collectors.scrape.conversion import Conversion, ScrapeBudget
from telemetry.collectors.scrape.fetch import Fetched, Fetcher, FetchError, normal_url, place_of, shown_url
from telemetry.collectors.scrape.selection import MetricSelection
from telemetry.collectors.scrape.text import Page, PageReader
from telemetry.common.formatting import number_of, printable
from telemetry.errors import TelemetryError, UsageError

if TYPE_CHECKING:
    from telemetry.client.run import Run

_FILE_BYTES = limits.MIB
_KIND: Final = "scrape"


class Scrape:
    """Metrics of one server, or of all servers in a file."""

    class Options(Struct, frozen=True, kw_only=True):
        """Options of the collector."""

        url: str = ""
        """Address of the page. Without a path, `/metrics`."""
        targets: str = ""
        """File with targets, instead of `url`."""
        metrics: str = ""
        """Patterns such as `vllm:*|node_cpu*|!go_*`. Empty: all metrics."""
        without: str = ""
        """Labels to leave out, such as `model_name|engine`."""
        every: Annotated[float, Meta(ge=0.1, le=3_600.0)] = 5.0
        """Seconds between two pages."""
        timeout: Annotated[float, Meta(ge=0.05, le=60.0)] = 2.0
        """Seconds for one page."""
        series: Annotated[int, Meta(ge=1, le=limits.SERIES_MOST)] = 1_000
        """Largest number of series in the run. A histogram of the page becomes four, a summary two."""
        token_env: str = ""
        """Environment variable with a token for `Authorization: Bearer`."""
        verify: bool = True
        """Whether the certificate of an https server is checked."""

    def __init__(self, options: Options, target: Target) -> None:
        """Check the options. Connects to no server yet. Raises NotConfigured."""
        self.interval_s = options.every
        self.options = options
        self.name = target.collector or _KIND
        # names of figures begin with the name of the collector already
        self.labels = {key: text for key, text in target.labels.items() if key != "collector"}
        self.token = _token(options.token_env)
        self.selection = MetricSelection(options.metrics)
        self.budget = ScrapeBudget(options.series)
        self.without = frozenset(word.strip() for word in options.without.split("|") if word.strip())
        self._watches: dict[str, _Watch] = {}
        self._file: TargetFile | None = None
        self._only: list[Server] = []
        self._file_problem = ""
        if bool(options.url) == bool(options.targets):
            raise NotConfigured(
                "scrape needs either an address or a file with targets",
                hint="scrape:url=http://HOST:PORT/metrics, or scrape:targets=PATH",
            )
        if options.targets:
            self._file = TargetFile(Path(options.targets).expanduser().absolute())
        else:
            try:
                self._only = [Server(normal_url(options.url))]
            except ValueError as error:
                raise NotConfigured(
                    f"{printable(shown_url(options.url))} is not an address of a page: {error}",
                    hint="scrape:url=http://HOST:PORT/metrics",
                ) from error

    def sample(self, run: Run) -> None:
        """Fetch the page of each server and record it. A server that is away gets `up` 0 and is tried again."""
        watches = self._current(run)
        if len(watches) == 1:
            watches[0].look()
        elif watches:
            with ThreadPoolExecutor(min(len(watches), limits.SCRAPE_THREADS)) as pool:
                list(pool.map(_Watch.fetch, watches))
            for watch in watches:
                watch.record()

    def close(self) -> None:
        """Close the connections."""
        for watch in self._watches.values():
            watch.close()
        self._watches = {}

    def _current(self, run: Run) -> list[_Watch]:
        """Return the watches of the servers that there are now."""
        servers = self._servers()
        for url in [url for url in self._watches if url not in {server.url for server in servers}]:
            self._watches.pop(url).close()
        for server in servers:
            if server.url not in self._watches:
                self._watches[server.url] = _Watch(self, run, server)
        return list(self._watches.values())

    def _servers(self) -> list[Server]:
        if self._file is None:
            return self._only
        try:
            servers = self._file.servers()
            self._file_problem = ""
        except UsageError as error:
            if str(error) != self._file_problem:
                self._file_problem = str(error)
                user_warnings.warn(f"{self.name}: {error}; it is read again every {self.interval_s:g} s")
            return []
        return servers


class _Watch:
    """One server: its connection, its series, and what was said about it."""

    def __init__(self, scrape: Scrape, run: Run, server: Server) -> None:
        options, name, labels = scrape.options, scrape.name, {**scrape.labels, **server.labels}
        prefix = "" if name == _KIND else name
        self._options = options
        self._fetcher = Fetcher(server.url, options.timeout, token=scrape.token, verify=options.verify)
        self._conversion = Conversion(
            run, scrape.selection, scrape.budget, prefix=prefix, labels=labels, without=scrape.without
        )
        self._reader = PageReader()
        self._put_up = run.gauge(f"{name}.up", labels=labels).set
        self._run, self._seconds, self._labels = run, f"{name}.scrape_seconds", labels
        self._who = f"{name}: {printable(shown_url(server.url))}"
        self._outcome: Fetched | FetchError = FetchError("it was not asked yet")
        self._at_s = 0.0
        self._problem = ""
        self._told: set[str] = set()

    def look(self) -> None:
        self.fetch()
        self.record()

    def fetch(self) -> None:
        """Fetch the page. Any thread may call it."""
        try:
            self._outcome = self._fetcher.fetch()
        except FetchError as error:
            self._outcome = error
        self._at_s = time.monotonic()

    def record(self) -> None:
        """Record the page that was fetched, or that there is none."""
        outcome = self._outcome
        try:
            if isinstance(outcome, FetchError):
                raise outcome
            page = self._reader.read(outcome.body, outcome.content_type)
            _check(page, outcome)
        except FetchError as error:
            self._put_up(0)
            self._say_away(error)
            return
        self._put_up(1)
        self._run.gauge(self._seconds, "s", labels=self._labels).set(outcome.seconds)
        self._conversion.take(page, self._at_s)
        self._say_back()
        self._say_left_out(page)

    def close(self) -> None:
        self._fetcher.close()

    def _say_away(self, error: TelemetryError) -> None:
        if not self._problem:
            user_warnings.warn(f"{self._who}: {error}; it is tried again every {self._options.every:g} s")
        self._problem = str(error)

    def _say_back(self) -> None:
        if self._problem:
            user_warnings.warn(f"{self._who} answers again")
        self._problem = ""

    def _say_left_out(self, page: Page) -> None:
        conversion = self._conversion
        if conversion.left_out:
            self._say_once(
                "series",
                f"{conversion.left_out:,} series of the page are left out, because the limit of the run is "
                f"{self._options.series:,}; choose metrics with metrics=PATTERN|PATTERN, or raise series=",
            )
        if conversion.unusable:
            self._say_once("unusable", f"a series can't be recorded: {conversion.unusable}")
        if page.malformed:
            self._say_once(
                "malformed",
                f"{number_of(page.malformed, 'line')} can't be read, such as {printable(page.first_malformed)!r}",
            )

    def _say_once(self, what: str, message: str) -> None:
        if what not in self._told:
            self._told.add(what)
            user_warnings.warn(f"{self._who}: {message}")


def _check(page: Page, fetched: Fetched) -> None:
    """Raise FetchError if an answer is not a page of metrics."""
    if page.malformed and not page.samples:
        kind = printable(fetched.content_type) or "an unknown type"
        raise FetchError(f"it answers with {kind}, not with metrics", hint="check the path of the page")


def _token(variable: str) -> str:
    """Return the token in an environment variable. Raises NotConfigured if there is none."""
    token = os.environ.get(variable, "").strip() if variable else ""
    if variable and not token:
        raise NotConfigured(f"the environment variable {printable(variable)} has no token", hint="export it first")
    if not token.isprintable():
        raise NotConfigured(f"the token in {printable(variable)} has characters that can't be sent")
    return token


@dataclass(frozen=True)
class Server:
    """A server with a page of metrics."""

    url: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its series: none if it is the only server of its collector."""


class _FileGroup(Struct):
    """Targets with common labels, as in a file for `file_sd_configs`."""

    targets: list[str]
    labels: dict[str, str] = {}


class TargetFile:
    """A JSON file with targets, such as the one that Ray writes. Servers are read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version = (0, 0, 0)
        self._servers: list[Server] = []

    def servers(self) -> list[Server]:
        """Return the servers. Raises UsageError if the file can't be read."""
        try:
            stat = self.path.stat()
            version = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if version != self._version:
                self._servers = _servers(self.path)
                self._version = version
        except OSError as error:
            raise UsageError(f"can't read {self.path}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"{self.path} is not a list of targets: {printable(str(error))}",
                hint='it must be JSON such as [{"targets": ["HOST:PORT"], "labels": {"job": "ray"}}]',
            ) from error
        return self._servers


def _servers(path: Path) -> list[Server]:
    with path.open("rb") as file:
        data = file.read(_FILE_BYTES + 1)
    if len(data) > _FILE_BYTES:
        raise ValueError(f"it is larger than {_FILE_BYTES // limits.MIB} MiB")
    servers: dict[str, Server] = {}
    for group in msgspec.json.decode(data, type=list[_FileGroup]):
        scheme = group.labels.get("__scheme__", "http")
        page = group.labels.get("__metrics_path__", "/metrics")
        own = {key: value for key, value in group.labels.items() if not key.startswith("__")}
        for target in group.targets:
            url = normal_url(f"{scheme}://{target}{page}")
            servers.setdefault(url, Server(url, {**own, "instance": place_of(url)}))
    if len(servers) > limits.SCRAPE_TARGETS:
        raise ValueError(f"it has {len(servers)} targets; the limit is {limits.SCRAPE_TARGETS}")
    return list(servers.values())
