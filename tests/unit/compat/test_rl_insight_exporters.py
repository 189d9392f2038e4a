"""Exporters of a run that RL-Insight's `init` starts, and the configuration file of the user's Prometheus."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from telemetry.compat.rl_insight.api import TRACES_VARIABLE, exporters_of
from telemetry.compat.rl_insight.prometheus_file import write_targets
from telemetry.integrations.rl_insight.targets import forget_targets, record_targets
from telemetry.store.processes import start_of
from telemetry.store.stack_state import StackState, default_directory, write_state

PAGE = "prometheus:port=9092,namespace=rl_insight_monitor,auto_port=true"
SPANS = "otlp:metrics=false,roots=true,integers=global_steps+turn,service=rl_insight_monitor"
Told = Callable[[], str]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the stack, the variables and the addresses of other tests away."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in (TRACES_VARIABLE, "OTEL_SERVICE_NAME", "TELEMETRY_BACKENDS__TO"):
        monkeypatch.delenv(name, raising=False)
    yield
    forget_targets()


def start_stack(otlp: str = "") -> None:
    """Write the state of a stack whose keeper is this process."""
    folder = default_directory()
    assert folder is not None
    folder.mkdir(parents=True)
    started = start_of(os.getpid())
    write_state(folder, StackState(keeper_pid=os.getpid(), keeper_started=started, targets="", log="", otlp=otlp))


def test_init_alone_has_a_page_and_waits_for_nobody() -> None:
    """A joined run reports nothing about the page, because `init` alone did not ask for it."""
    found = exporters_of(None)
    assert (found.to, found.environment, found.is_asked_for) == ([f"{PAGE},linger=0"], {}, False)


def test_the_configuration_names_port_namespace_and_receiver() -> None:
    """A port that is asked for is not exchanged, and the last values wait for their scrape."""
    config = {
        "namespace": "mine",
        "prometheus": {"metrics_report_port": 9999},
        "otel": {"traces_endpoint": "http://h:4318/v1/traces"},
    }
    found = exporters_of(config)
    assert found.to == [
        "prometheus:port=9999,namespace=mine",
        "otlp:metrics=false,roots=true,integers=global_steps+turn,service=mine",
    ]
    assert found.environment == {TRACES_VARIABLE: "http://h:4318/v1/traces"}
    assert found.is_asked_for
    assert exporters_of({"prometheus": {"enable": False}}).to == []


def test_the_environment_wins_and_the_stack_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is as in RL-Insight, whose configuration has a default receiver on this machine."""
    start_stack("http://127.0.0.1:4318")
    assert exporters_of(None).to == [PAGE, SPANS]
    assert exporters_of(None).environment == {TRACES_VARIABLE: "http://127.0.0.1:4318/v1/traces"}
    config = {"otel": {"traces_endpoint": "http://conf/v1/traces"}}
    assert exporters_of(config).environment == {TRACES_VARIABLE: "http://conf/v1/traces"}
    monkeypatch.setenv(TRACES_VARIABLE, "http://env/v1/traces")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "service")
    found = exporters_of(config)
    assert found.environment == {TRACES_VARIABLE: "http://env/v1/traces"}
    assert found.to[1] == SPANS.removesuffix(",service=rl_insight_monitor")


def test_backends_of_the_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them takes the place of the exporter of its kind."""
    monkeypatch.setenv("TELEMETRY_BACKENDS__TO", "prometheus:port=1, jsonl:path=x")
    assert exporters_of(None).to == ["prometheus:port=1", "jsonl:path=x"]


# --- the file of Prometheus --------------------------------------------------------------------------


def conf(path: Path, **settings: Any) -> dict[str, Any]:
    return {"prometheus": {"config_file": str(path), "reload": {"mode": "none"}, **settings}}


def test_a_job_is_replaced_and_other_content_stays(tmp_path: Path) -> None:
    """All addresses of the job that this process gave so far are in it."""
    path = tmp_path / "prometheus.yml"
    path.write_text("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: other\n- job_name: vllm\n")
    path.chmod(0o640)
    for address in ("h:1", "https://h:2/m"):
        record_targets([address], "vllm", None)
        write_targets(conf(path), "vllm")
    document = import_module("yaml").safe_load(path.read_text())
    assert document["global"] == {"scrape_interval": "1s"}
    other, vllm = document["scrape_configs"]
    assert other == {"job_name": "other"}
    assert vllm["job_name"] == "vllm"
    assert [group["targets"] for group in vllm["static_configs"]] == [["h:1"], ["h:2"]]
    assert vllm["static_configs"][1]["labels"]["__metrics_path__"] == "/m"
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_cant_be_written_or_read_again_is_a_message(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program goes on."""
    record_targets(["h:1"], "vllm", None)
    write_targets({"prometheus": {}}, "vllm")
    write_targets({"prometheus": None}, "vllm")
    assert told() == ""
    write_targets({"prometheus": {"config_file": str(tmp_path / "new" / "p.yml"), "prometheus_port": 9}}, "vllm")
    assert (tmp_path / "new" / "p.yml").exists()
    assert "no Prometheus answers at http://127.0.0.1:9/-/reload" in told()
    (tmp_path / "bad.yml").write_text("a: [")
    write_targets(conf(tmp_path / "bad.yml"), "vllm")
    assert "are not written to" in told()
    assert "is not valid YAML" in told()
    write_targets(conf(tmp_path), "vllm")
    assert "can't read" in told()
    monkeypatch.setitem(sys.modules, "yaml", None)
    write_targets(conf(tmp_path / "p.yml"), "vllm")
    assert "needs a reader of YAML" in told()
