"""The servers that a collector scrapes: one address, or the targets in a file of Prometheus' service discovery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from telemetry import limits
from telemetry.collectors.scrape.fetch import normal_url, place_of
from telemetry.errors import UsageError
from telemetry.formatting import printable

_FILE_BYTES = limits.MIB


@dataclass(frozen=True)
class Server:
    """A server with a page of metrics."""

    url: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its series: none if it is the only server of its collector."""


class _Group(Struct):
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
    for group in msgspec.json.decode(data, type=list[_Group]):
        scheme = group.labels.get("__scheme__", "http")
        page = group.labels.get("__metrics_path__", "/metrics")
        own = {key: value for key, value in group.labels.items() if not key.startswith("__")}
        for target in group.targets:
            url = normal_url(f"{scheme}://{target}{page}")
            servers.setdefault(url, Server(url, {**own, "instance": place_of(url)}))
    if len(servers) > limits.SCRAPE_TARGETS:
        raise ValueError(f"it has {len(servers)} targets; the limit is {limits.SCRAPE_TARGETS}")
    return list(servers.values())
