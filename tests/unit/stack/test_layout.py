"""The files of the stack, read by parsers of others: YAML, INI, promtool, a reader of compose files."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from telemetry.stack.layout import StackLayout
from telemetry.stack.settings import StackSettings, TempoSettings

ODD = "a $HOME: {x} 'ü'"
"""Characters that the formats of the files give a meaning."""


def written(tmp_path: Path, **settings: Any) -> StackLayout:
    layout = StackLayout(tmp_path / "stack", StackSettings(targets=str(tmp_path / "targets"), **settings))
    paths = layout.write()
    assert all(path.is_file() for path in paths)
    return layout


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_prometheus_reads_the_folder_of_targets(tmp_path: Path, require_tool: Callable[[str], str]) -> None:
    """The configuration names the folder of targets and the rules, and promtool finds no fault in it."""
    layout = written(tmp_path)
    config = read(layout.prometheus_yml)
    (job,) = config["scrape_configs"]
    assert job["file_sd_configs"] == [{"files": [f"{tmp_path}/targets/*.json"], "refresh_interval": "5s"}]
    assert job["honor_labels"] is True
    assert config["rule_files"] == [str(layout.rules_yml)]
    assert "--storage.tsdb.retention.time=30d" in layout.prometheus_flags()
    promtool = require_tool("promtool")
    subprocess.run([promtool, "check", "config", layout.prometheus_yml], check=True)


def test_tempo_takes_spans_at_the_ports_of_the_settings(tmp_path: Path) -> None:
    """Keeps them as long as Prometheus keeps metrics, and reports to nobody."""
    layout = written(tmp_path, tempo=TempoSettings(otlp_http_port=14318, port=13200), retention_days=3)
    config = read(layout.tempo_yaml)
    assert config["distributor"]["receivers"]["otlp"]["protocols"] == {
        "http": {"endpoint": "127.0.0.1:14318"},
        "grpc": {"endpoint": "127.0.0.1:4317"},
    }
    assert config["server"]["http_listen_port"] == 13200
    assert config["compactor"]["compaction"]["block_retention"] == "72h"
    assert config["usage_report"] == {"reporting_enabled": False}
    assert Path(config["storage"]["trace"]["local"]["path"]).is_relative_to(layout.data)


def test_grafana_has_both_data_sources_and_the_dashboards(tmp_path: Path) -> None:
    """Grafana has Prometheus and Tempo as data sources, at their addresses, and the dashboards."""
    layout = written(tmp_path, tempo=TempoSettings(port=13200))
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(layout.grafana_ini)
    assert ini["server"]["http_addr"] == "127.0.0.1"
    assert Path(ini["paths"]["provisioning"]) == layout.provisioning
    sources = read(layout.provisioning / "datasources" / "telemetry.yaml")
    assert sources["apiVersion"] == 1
    assert {one["uid"]: (one["type"], one["url"]) for one in sources["datasources"]} == {
        "prometheus": ("prometheus", "http://127.0.0.1:9090"),
        "tempo": ("tempo", "http://127.0.0.1:13200"),
    }
    (provider,) = read(layout.provisioning / "dashboards" / "telemetry.yaml")["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"] == str(layout.dashboards)
    assert list(layout.dashboards.glob("*.json"))


@pytest.mark.parametrize(("host", "role"), [("127.0.0.1", "Editor"), ("::1", "Editor"), ("0.0.0.0", "Viewer")])
def test_whoever_reaches_grafana_from_outside_may_only_look(tmp_path: Path, host: str, role: str) -> None:
    """Users from outside may only view in Grafana.

    No login needs a password, and no first administrator with the known password is made.
    """
    layout = written(tmp_path, host=host)
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(layout.grafana_ini)
    assert ini["auth.anonymous"]["org_role"] == role
    assert ini["security"]["disable_initial_admin_creation"] == "true"
    urls = [one["url"] for one in read(layout.provisioning / "datasources" / "telemetry.yaml")["datasources"]]
    assert all("0.0.0.0" not in url for url in urls)
    yaml.safe_load(layout.tempo_yaml.read_text())


@pytest.mark.parametrize("podman", [False, True])
def test_the_compose_file_is_one(tmp_path: Path, podman: bool) -> None:
    """A reader of the specification takes it. Images have versions, ports are loopback ones, folders are ours."""
    layout = written(tmp_path)
    layout.write(podman=podman)
    text = layout.compose_yaml.read_text()
    assert sorted(PyCompose.from_yaml(text).service_names()) == ["grafana", "prometheus", "tempo"]
    with pytest.raises(ValueError, match="restrat"):
        PyCompose.from_yaml(text.replace("restart:", "restrat:"))
    services = yaml.safe_load(text)["services"]
    for service in services.values():
        assert service["network_mode"] == "host"
        assert service["image"].rpartition(":")[2][-1].isdigit()
        assert service["user"] == f"{os.getuid()}:{os.getgid()}"
        assert service.get("userns_mode") == ("keep-id" if podman else None)
        for volume in service["volumes"]:
            assert volume["source"] == volume["target"]
            assert Path(volume["source"]).is_dir()
    assert services["prometheus"]["command"] == list(layout.prometheus_flags())
    assert "--web.listen-address=127.0.0.1:9090" in services["prometheus"]["command"]
    mounted = [volume["source"] for volume in services["prometheus"]["volumes"]]
    assert mounted == [str(layout.directory), str(layout.targets), str(layout.data / "prometheus")]


def test_paths_with_odd_characters_stay_what_they_are(tmp_path: Path, require_tool: Callable[[str], str]) -> None:
    """YAML files keep paths with odd characters. A `$` that would begin a variable is doubled."""
    folder = tmp_path / ODD
    folder.mkdir()
    layout = written(folder)
    assert read(layout.prometheus_yml)["rule_files"] == [str(layout.rules_yml)]
    services = read(layout.compose_yaml)["services"]
    doubled = str(layout.directory).replace("$", "$$")
    assert services["grafana"]["volumes"][0]["source"] == doubled
    assert services["grafana"]["environment"]["GF_PATHS_CONFIG"] == f"{doubled}/grafana.ini"
    assert services["tempo"]["command"] == [f"-config.file={doubled}/tempo.yaml"]
    subprocess.run([require_tool("promtool"), "check", "config", layout.prometheus_yml], check=True)


def test_files_are_written_again(tmp_path: Path) -> None:
    """The files are written again with new settings into the same folder. The dashboards are JSON."""
    written(tmp_path)
    layout = written(tmp_path, retention_days=7)
    assert "--storage.tsdb.retention.time=7d" in read(layout.compose_yaml)["services"]["prometheus"]["command"]
    for path in layout.dashboards.glob("*.json"):
        json.loads(path.read_text())
