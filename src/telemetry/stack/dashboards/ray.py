"""The dashboard of a Ray cluster, by Ray's own metrics.

They come from a collector of a run that scrapes Ray, or from Prometheus itself.
"""

from __future__ import annotations

from typing import Final

from telemetry.stack.dashboards.model import Dashboard, Row, Target, TimeSeries, own


def _ray(name: str, *matchers: str) -> str:
    return own(f"ray_{name}", *matchers, run="ANY_RUN")


def _sum(by: str, name: str, *matchers: str) -> str:
    return f"sum by ({by}) ({_ray(name, *matchers)})"


def _panel(title: str, question: str, unit: str, *targets: tuple[str, str]) -> TimeSeries:
    lines = tuple(Target(query, legend) for query, legend in targets)
    return TimeSeries(title=title, question=question, unit=unit, targets=lines, width=8)


RAY: Final = Dashboard(
    name="ray",
    title="telemetry / Ray",
    question="Does the Ray cluster have work, and room for it?",
    rows=(
        Row(
            "Work",
            (
                _panel(
                    "Tasks",
                    "Do tasks run, wait or fail?",
                    "none",
                    (_sum("State", "tasks"), "{{State}}"),
                ),
                _panel(
                    "Actors",
                    "Do actors live, or restart?",
                    "none",
                    (_sum("State", "actors"), "{{State}}"),
                ),
                _panel(
                    "Resources in use",
                    "How much of the cluster is reserved?",
                    "none",
                    (_sum("Name", "resources", 'State="USED"'), "{{Name}}"),
                ),
                _panel(
                    "Object store",
                    "Do objects fit into memory, or do they spill to disk?",
                    "bytes",
                    (_sum("Location", "object_store_memory"), "{{Location}}"),
                ),
                _panel("Nodes", "Are all nodes there?", "none", (f"sum({_ray('cluster_active_nodes')})", "active")),
                _panel(
                    "Memory of components",
                    "Which part of Ray needs the memory?",
                    "bytes",
                    (_sum("Component", "component_rss_bytes"), "{{Component}}"),
                ),
            ),
        ),
        Row(
            "Nodes",
            (
                _panel("CPU", "Which node is busy?", "percent", (_ray("node_cpu_utilization"), "{{ip}}")),
                _panel(
                    "Memory",
                    "Which node is full?",
                    "bytes",
                    (_ray("node_mem_used"), "{{ip}} used"),
                    (_ray("node_mem_total"), "{{ip}} total"),
                ),
                _panel(
                    "Disk", "Which disk is full?", "percent", (_ray("node_disk_utilization_percentage"), "{{ip}}")
                ),
                _panel(
                    "Network",
                    "How much do nodes receive and send?",
                    "Bps",
                    (_ray("node_network_receive_speed"), "{{ip}} received"),
                    (_ray("node_network_send_speed"), "{{ip}} sent"),
                ),
                _panel(
                    "GPU utilization",
                    "Do the GPUs have work?",
                    "percent",
                    (_ray("node_gpus_utilization"), "{{ip}} GPU {{GpuIndex}}"),
                ),
                _panel(
                    "GPU memory",
                    "How full is the memory of the GPUs?",
                    "decmbytes",
                    (_ray("node_gram_used"), "{{ip}} GPU {{GpuIndex}}"),
                ),
            ),
        ),
    ),
)
