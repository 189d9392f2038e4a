"""The rules of Prometheus, as promtool judges them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from telemetry.stack.layout import RULES

Require = Callable[[str], str]
Expected = Mapping[str, Mapping[str, str]]
LABELS = {"instance": "a:1", "run": "r1"}


def alerts() -> list[dict[str, Any]]:
    return list(yaml.safe_load(RULES.read_text())["groups"][1]["rules"])


def alert(name: str) -> dict[str, Any]:
    return next(rule for rule in alerts() if rule["alert"] == name)


def judge(folder: Path, promtool: str, series: Mapping[str, str], expected: Expected) -> None:
    """Let promtool feed `series`, one value a minute, and compare alerts.

    `expected`: `MINUTE NAME` → labels and summary of the alert; empty if there is none.
    """
    (folder / "rules.yml").write_text(RULES.read_text())
    checks = []
    for when, facts in expected.items():
        minute, name = when.split()
        rule, labels = alert(name), dict(facts)
        annotations = {
            "summary": labels.pop("summary", ""),
            "description": rule["annotations"]["description"].replace("{{ $labels.run }}", "r1"),
        }
        found = {"exp_labels": {**LABELS, **labels, **rule["labels"]}, "exp_annotations": annotations}
        checks.append({"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [found] if facts else []})
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": inputs, "alert_rule_test": checks}],
    }
    (folder / "test.yml").write_bytes(msgspec.yaml.encode(test))
    command = [promtool, "test", "rules", folder / "test.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules(require_tool: Require) -> None:
    """All of them, and each alert says what happened and what to do."""
    done = subprocess.run(
        [require_tool("promtool"), "check", "rules", RULES], capture_output=True, text=True, check=True
    )
    assert "13 rules found" in done.stdout
    assert all(text.endswith(".") for rule in alerts() for text in rule["annotations"].values())
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in alerts())


def test_a_run_without_events_is_stalled_while_it_is_live(tmp_path: Path, require_tool: Require) -> None:
    """The alert fires after ten minutes without events, not before, and not once the run has ended."""
    state = 'telemetry_run_state{instance="a:1",run="r1",state="LIVE"}'
    series = {
        state: "1x14 0x6",
        'telemetry_run_snapshot_time_seconds{instance="a:1",run="r1"}': "0+60x20",
        'telemetry_run_last_event_time_seconds{instance="a:1",run="r1"}': "0+60x2 120x18",
    }
    name = "TelemetryRunStalled"
    stalled = {"summary": "Run r1 has recorded nothing for 11m 0s."}
    judge(tmp_path, require_tool("promtool"), series, {f"12 {name}": {}, f"13 {name}": stalled, f"16 {name}": {}})


def test_a_run_that_ended_without_events_is_not_complete(tmp_path: Path, require_tool: Require) -> None:
    """The alert stays a while, because the last values of a run are scraped once.

    A run that goes on has no alert.
    """
    series = {
        'telemetry_run_completeness{completeness="incomplete",instance="a:1",run="r1"}': "1x3 0 stale",
        'telemetry_run_completeness{completeness="lossy",instance="a:1",run="r1"}': "0x3 1 stale",
        'telemetry_run_completeness{completeness="complete",instance="a:1",run="r1"}': "0x4 stale",
        'telemetry_run_state{instance="a:1",run="r1",state="COMPLETE"}': "0x3 1 stale",
    }
    name = "TelemetryRunNotComplete"
    lossy = {"completeness": "lossy", "summary": "Run r1 has ended and is lossy."}
    judge(tmp_path, require_tool("promtool"), series, {f"3 {name}": {}, f"10 {name}": lossy, f"30 {name}": {}})


def test_a_full_disk_full_memory_and_a_hot_gpu_are_named(tmp_path: Path, require_tool: Require) -> None:
    """The alerts name the full disk, the full memory and the hot GPU, also below a namespace.

    A GPU at its power cap raises no alert.
    """
    of_gpu = 'instance="a:1",run="r1",gpu="3"'
    series = {
        'telemetry_run_disk_free_bytes{instance="a:1",run="r1"}': "4x10",
        'telemetry_run_disk_size_bytes{instance="a:1",run="r1"}': "100x10",
        'host_memory_percent_ratio{instance="a:1",run="r1"}': "0.96x10",
        'container_memory_percent_ratio{instance="a:1",run="r1"}': "0.97x10",
        f'mine_gpu_throttled{{{of_gpu},reason="hardware_thermal"}}': "1x10",
        f'mine_gpu_throttled{{{of_gpu},reason="power_cap"}}': "1x10",
    }
    throttled = {
        "gpu": "3",
        "reason": "hardware_thermal",
        "summary": "GPU 3 of run r1 is slowed down: hardware_thermal.",
    }
    full = {"summary": "The disk of run r1 has 4% left."}
    used = {"summary": "97% of the memory is in use beside run r1."}
    expected = {
        "5 TelemetryDiskNearlyFull": full,
        "5 TelemetryMemoryNearlyFull": used,
        "5 TelemetryGpuThrottled": throttled,
    }
    judge(tmp_path, require_tool("promtool"), series, expected)
