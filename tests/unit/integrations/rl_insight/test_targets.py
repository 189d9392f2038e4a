"""Addresses that a program wants Prometheus to scrape, in the folder of targets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.integrations.rl_insight.targets import forget_targets, record_targets

FORKS = """
import os
from telemetry.integrations.rl_insight.targets import forget_targets, record_targets
record_targets(["h:1"], "job", None)
child = os.fork()
if child:
    os.waitpid(child, 0)
    print(os.getpid())
else:
    forget_targets()
    os._exit(0)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path / "telemetry" / "targets"
    forget_targets()


def groups(path: Path) -> list[dict[str, Any]]:
    """Groups of a file without their owner."""
    return [
        {**group, "labels": {key: text for key, text in group["labels"].items() if key != "__telemetry_owner"}}
        for group in json.loads(path.read_text())
    ]


def test_addresses_of_a_job_are_one_file_that_grows(folder: Path) -> None:
    """Each has its labels, and those of all. A later call changes an address; another job has another file."""
    record_targets(["h:8000", "h:8001"], "vllm", [{"replica": 0}, None], {"project": "p", "experiment_name": None})
    record_targets(["h:8001", "h:8002"], "vllm", [{"replica": 1}, {"project": "q"}])
    record_targets(["h:9000"], None, None)
    pid = os.getpid()
    assert groups(folder / f"rl_insight-vllm-{pid}.json") == [
        {"targets": ["h:8000"], "labels": {"job": "vllm", "project": "p", "replica": "0"}},
        {"targets": ["h:8001"], "labels": {"job": "vllm", "replica": "1"}},
        {"targets": ["h:8002"], "labels": {"job": "vllm", "project": "q"}},
    ]
    assert groups(folder / f"rl_insight-trainer_metrics-{pid}.json")[0]["targets"] == ["h:9000"]
    forget_targets()
    assert list(folder.iterdir()) == []
    record_targets(["h:1"], "vllm", None)
    assert [group["targets"] for group in groups(folder / f"rl_insight-vllm-{pid}.json")] == [["h:1"]]


@pytest.mark.parametrize(
    ("address", "target", "more"),
    [
        ("http://h:8000", "h:8000", {"__scheme__": "http"}),
        ("https://h:8000/own/metrics", "h:8000", {"__scheme__": "https", "__metrics_path__": "/own/metrics"}),
        ("h:8000/metrics", "h:8000", {"__metrics_path__": "/metrics"}),
        ("[::1]:8000", "[::1]:8000", {}),
        ("[::1:8000", "[::1:8000", {}),
    ],
)
def test_an_address_may_be_a_url(folder: Path, address: str, target: str, more: dict[str, str]) -> None:
    """Prometheus takes a host and a port, and the rest as labels."""
    record_targets([address], "job", None)
    assert groups(folder / f"rl_insight-job-{os.getpid()}.json") == [
        {"targets": [target], "labels": {"job": "job", **more}}
    ]


def test_a_folder_that_cant_be_written_raises_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The program goes on, and hears why."""
    folder.parent.mkdir()
    folder.write_text("")
    record_targets(["h:1"], "job", None)
    assert "does not find the targets of 'job'" in caplog.text


def test_a_forked_child_leaves_the_file_of_its_parent(folder: Path) -> None:
    """A forked child leaves the target file of its parent: the child's end is not the program's end."""
    done = subprocess.run([sys.executable, "-c", FORKS], check=True, capture_output=True, text=True)
    assert (folder / f"rl_insight-job-{done.stdout.strip()}.json").exists()
