"""A launch from Python, with the capture installed by hand after all imports. Writes what it found to a file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch.distributed.elastic.agent.server.api as agent
import torch.distributed.elastic.agent.server.local_elastic_agent as local_agent
from torch.distributed.elastic import events, metrics
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import telemetry.integrations.torchrun as capture


def functions() -> list[object]:
    return [
        metrics.api.MetricStream.add_value,
        events.record,
        events.construct_and_record_rdzv_event,
        agent.record,
        local_agent.LocalElasticAgent._monitor_workers,
    ]


def work() -> str:
    metrics.put_metric("by_function", int(os.environ["RANK"]) + 5, "launched")
    return os.environ["RANK"]


def main() -> None:
    originals = functions()
    metrics.put_metric("uncaptured", 1)
    capture.install()
    capture.install()
    installed = functions()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        rdzv_endpoint="127.0.0.1:0",
        rdzv_backend="c10d",
        run_id="by-hand",
        max_restarts=0,
        start_method="fork",
    )
    returned = elastic_launch(config, work)()
    events.record(
        events.Event("checkpoint", events.EventSource.WORKER, 0, {"step": 7, "path": "a.pt", "note": None})
    )
    capture.uninstall()
    capture.uninstall()
    metrics.put_metric("uncaptured", 1)
    found = {
        "returned": returned,
        "replaced": [now is not before for now, before in zip(installed, originals, strict=True)],
        "restored": [now is before for now, before in zip(functions(), originals, strict=True)],
    }
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
