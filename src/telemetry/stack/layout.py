"""The files of the stack: one set, for native processes and for containers.

Containers use the network of the host and see the same folders under the same paths. So each address and path
holds for both.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from telemetry.errors import UsageError
from telemetry.stack.settings import ANYWHERE, LogLevel, StackSettings, data_directory, targets_directory
from telemetry.store.atomic import write_atomic

RULES: Final = Path(__file__).with_name("rules.yml")
DASHBOARDS: Final = Path(__file__).with_name("dashboards")
COMPOSE_FILE: Final = "compose.yaml"
JOB: Final = "telemetry"
PROMETHEUS_UID: Final = "prometheus"
"""Name of the data source in dashboards."""
_TEMPO_UID: Final = "tempo"
_SCRAPE_S: Final = 2
"""Seconds between scrapes. Prometheus itself may take 10 s to notice a new target."""
_REFRESH_S: Final = 5
_HEAD: Final = "Written by `telemetry stack`. The next `telemetry stack up` writes it again."
_OURS: Final = ("Written by `telemetry stack`", '"uid": "telemetry-')
"""Words of which one is in each file: the second one in dashboards, which have no comments."""
_LEVELS: Final = {"debug": "debug", "info": "info", "warning": "warn", "error": "error"}
"""Our word → that of all three."""


@dataclass(frozen=True)
class StackLayout:
    """Paths and contents of the files in a folder."""

    directory: Path
    settings: StackSettings
    log_level: LogLevel = "info"

    # --- paths -------------------------------------------------------------------------------------

    @property
    def prometheus_yml(self) -> Path:
        return self.directory / "prometheus.yml"

    @property
    def rules_yml(self) -> Path:
        return self.directory / "rules.yml"

    @property
    def tempo_yaml(self) -> Path:
        return self.directory / "tempo.yaml"

    @property
    def grafana_ini(self) -> Path:
        return self.directory / "grafana.ini"

    @property
    def provisioning(self) -> Path:
        return self.directory / "provisioning"

    @property
    def dashboards(self) -> Path:
        return self.directory / "dashboards"

    @property
    def compose_yaml(self) -> Path:
        return self.directory / COMPOSE_FILE

    @property
    def data(self) -> Path:
        return data_directory(self.settings, self.directory)

    @property
    def targets(self) -> Path:
        return targets_directory(self.settings, self.directory)

    # --- command lines -----------------------------------------------------------------------------

    def prometheus_flags(self) -> tuple[str, ...]:
        return (
            f"--config.file={self.prometheus_yml}",
            f"--storage.tsdb.path={self.data / 'prometheus'}",
            f"--storage.tsdb.retention.time={self.settings.retention_days}d",
            f"--web.listen-address={self._at(self.settings.prometheus.port)}",
            f"--log.level={_LEVELS[self.log_level]}",
        )

    def tempo_flags(self) -> tuple[str, ...]:
        return (f"-config.file={self.tempo_yaml}",)

    # --- files -------------------------------------------------------------------------------------

    def write(self, podman: bool = False) -> list[Path]:
        """Write all files, each atomically, and create the folders that they name.

        Raises OSError, and UsageError if one would replace a file of the user.
        """
        texts = {
            self.prometheus_yml: self.prometheus_text(),
            self.rules_yml: f"# {_HEAD}\n{RULES.read_text()}",
            self.tempo_yaml: self.tempo_text(),
            self.grafana_ini: self.grafana_text(),
            self.provisioning / "datasources" / "telemetry.yaml": self.datasources_text(),
            self.provisioning / "dashboards" / "telemetry.yaml": self.dashboards_text(),
            self.compose_yaml: self.compose_text(podman=podman),
            **{self.dashboards / path.name: path.read_text() for path in sorted(DASHBOARDS.glob("*.json"))},
        }
        _check_ours(texts)
        for folder in (*self._folders(), self.targets):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, text in texts.items():
            write_atomic(path, text.encode(), durable=False)
        return [*texts]

    def _folders(self) -> Iterator[Path]:
        yield self.directory
        yield self.dashboards
        for kind in ("datasources", "dashboards", "plugins", "alerting"):  # Grafana warns about missing ones
            yield self.provisioning / kind
        yield from (self.data / name for name in ("prometheus", "tempo", "grafana"))

    def prometheus_text(self) -> str:
        return f"""\
# {_HEAD}
global:
  scrape_interval: {_SCRAPE_S}s
  scrape_timeout: {_SCRAPE_S}s
  evaluation_interval: {_REFRESH_S}s
rule_files: [{_quoted(_pattern(self.rules_yml))}]
scrape_configs:
  - job_name: {JOB}
    honor_labels: true
    file_sd_configs:
      - files: [{_quoted(f"{_pattern(self.targets)}/*.json")}]
        refresh_interval: {_REFRESH_S}s
"""

    def tempo_text(self) -> str:
        tempo, host, data = self.settings.tempo, _quoted(self.settings.host), self.data / "tempo"
        return f"""\
# {_HEAD}
server:
  http_listen_address: {host}
  http_listen_port: {tempo.port}
  grpc_listen_address: {host}
  grpc_listen_port: {tempo.grpc_port}
  log_level: {_LEVELS[self.log_level]}
distributor:
  receivers:
    otlp:
      protocols:
        http:
          endpoint: {_quoted(self._at(tempo.otlp_http_port))}
        grpc:
          endpoint: {_quoted(self._at(tempo.otlp_grpc_port))}
compactor:
  compaction:
    block_retention: {self.settings.retention_days * 24}h
storage:
  trace:
    backend: local
    local:
      path: {_quoted(data / "blocks")}
    wal:
      path: {_quoted(data / "wal")}
usage_report:
  reporting_enabled: false
"""

    def grafana_text(self) -> str:
        data = self.data / "grafana"
        role = "Editor" if self._is_local() else "Viewer"
        return f"""\
; {_HEAD}
[paths]
data = {data}
logs = {data / "logs"}
plugins = {data / "plugins"}
provisioning = {self.provisioning}
[server]
http_addr = {self.settings.host}
http_port = {self.settings.grafana.port}
[auth]
disable_login_form = true
[auth.anonymous]
enabled = true
org_role = {role}
[security]
disable_initial_admin_creation = true
[analytics]
reporting_enabled = false
check_for_updates = false
check_for_plugin_updates = false
[plugins]
preinstall_disabled = true
[news]
news_feed_enabled = false
[log]
mode = console
level = {_LEVELS[self.log_level]}
"""

    def datasources_text(self) -> str:
        host = "127.0.0.1" if self.settings.host in ANYWHERE else self.settings.host
        prometheus = _address(host, self.settings.prometheus.port)
        tempo = _address(host, self.settings.tempo.port)
        return f"""\
# {_HEAD}
apiVersion: 1
datasources:
  - name: Prometheus
    uid: {PROMETHEUS_UID}
    type: prometheus
    access: proxy
    url: {_escaped("http://" + prometheus)}
    isDefault: true
    jsonData:
      timeInterval: {_SCRAPE_S}s
      httpMethod: POST
  - name: Tempo
    uid: {_TEMPO_UID}
    type: tempo
    access: proxy
    url: {_escaped("http://" + tempo)}
"""

    def dashboards_text(self) -> str:
        return f"""\
# {_HEAD}
apiVersion: 1
providers:
  - name: telemetry
    folder: telemetry
    type: file
    disableDeletion: true
    allowUiUpdates: false
    updateIntervalSeconds: 10
    options:
      path: {_escaped(self.dashboards)}
"""

    def compose_text(self, *, podman: bool = False) -> str:
        """Return the compose file. `podman`: containers of a user without root keep the user's own id."""
        settings, data = self.settings, self.data
        named = sha256(str(self.directory).encode()).hexdigest()[:8]
        mode = '\n    userns_mode: "keep-id"' if podman else ""
        common = f"""\
    network_mode: host
    user: "{os.getuid()}:{os.getgid()}"{mode}
    restart: unless-stopped"""
        grafana = data / "grafana"
        return f"""\
# {_HEAD}
# Containers use the network of the host: runs listen at 127.0.0.1, which no other network reaches.
name: telemetry-stack-{named}
services:
  prometheus:
    image: {_escaped(settings.prometheus.image)}
{common}
    command: [{", ".join(map(_escaped, self.prometheus_flags()))}]
    volumes:
      - {_bind(self.directory, read_only=True)}
      - {_bind(self.targets, read_only=True)}
      - {_bind(data / "prometheus")}
  tempo:
    image: {_escaped(settings.tempo.image)}
{common}
    command: [{", ".join(map(_escaped, self.tempo_flags()))}]
    volumes:
      - {_bind(self.directory, read_only=True)}
      - {_bind(data / "tempo")}
  grafana:
    image: {_escaped(settings.grafana.image)}
{common}
    environment:
      GF_PATHS_CONFIG: {_escaped(self.grafana_ini)}
      GF_PATHS_DATA: {_escaped(grafana)}
      GF_PATHS_LOGS: {_escaped(grafana / "logs")}
      GF_PATHS_PLUGINS: {_escaped(grafana / "plugins")}
      GF_PATHS_PROVISIONING: {_escaped(self.provisioning)}
    volumes:
      - {_bind(self.directory, read_only=True)}
      - {_bind(grafana)}
"""

    def _at(self, port: int) -> str:
        return _address(self.settings.host, port)

    def _is_local(self) -> bool:
        return self.settings.host in ("127.0.0.1", "::1", "localhost")


def _check_ours(paths: Iterable[Path]) -> None:
    """Raise UsageError for a file that is there and was not written by `telemetry stack`."""
    for path in paths:
        try:
            text = path.read_text(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            continue
        if text and not any(marker in text for marker in _OURS):
            raise UsageError(
                f"{path} was not written by `telemetry stack` and would be replaced",
                hint="choose another folder, or move the file away",
            )


def _pattern(path: Path) -> str:
    """Return a path for Prometheus, which takes it for a pattern. It has no escape for `*`."""
    return re.sub(r"[\\?[]", r"\\\g<0>", str(path)).replace("*", "?")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _quoted(text: object) -> str:
    """Return a text for YAML: JSON's form, which YAML has too."""
    return json.dumps(str(text), ensure_ascii=False)


def _escaped(text: object) -> str:
    """Escape each `$` of a text, because compose and Grafana replace `$NAME` by a variable."""
    return _quoted(str(text).replace("$", "$$"))


def _bind(path: Path, *, read_only: bool = False) -> str:
    """Return a folder of this machine as a volume under the same path."""
    folder = str(path).replace("$", "$$")
    volume = {"type": "bind", "source": folder, "target": folder}
    return json.dumps(volume | ({"read_only": True} if read_only else {}), ensure_ascii=False)
