"""A job with all that dashboards show: requests, steps of two ranks, and gauges of what this machine does not have.

It goes on until the file STOP exists.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from multiprocessing.synchronize import Barrier

import telemetry

GPU = {
    "gpu.utilization": "%",
    "gpu.memory_utilization": "%",
    "gpu.memory": "B",
    "gpu.memory_percent": "%",
    "gpu.power": "W",
    "gpu.power_limit": "W",
    "gpu.temperature": "°C",
    "gpu.clock": "MHz",
    "gpu.memory_clock": "MHz",
    "gpu.throttled": "",
}
"""Gauges of the collector `gpu`, which a machine without a GPU does not have."""
HOST = {
    "host.swap": "B",
    "host.disk_read": "B/s",
    "host.disk_written": "B/s",
    "host.disk_busy": "%",
    "host.pressure_cpu": "%",
    "host.pressure_memory": "%",
    "host.pressure_io": "%",
    "container.cpu": "%",
    "container.cpu_throttled": "%",
    "container.memory_percent": "%",
}
"""Gauges of the collector `host` that only some machines have."""
RAY = {
    "ray_tasks": {"State": "RUNNING"},
    "ray_actors": {"State": "ALIVE"},
    "ray_resources": {"Name": "CPU", "State": "USED"},
    "ray_object_store_memory": {"Location": "MMAP_SHM"},
    "ray_cluster_active_nodes": {"node_type": "head"},
    "ray_component_rss_bytes": {"Component": "raylet"},
    "ray_node_cpu_utilization": {"ip": "10.0.0.1"},
    "ray_node_mem_used": {"ip": "10.0.0.1"},
    "ray_node_mem_total": {"ip": "10.0.0.1"},
    "ray_node_disk_utilization_percentage": {"ip": "10.0.0.1"},
    "ray_node_network_receive_speed": {"ip": "10.0.0.1"},
    "ray_node_network_send_speed": {"ip": "10.0.0.1"},
    "ray_node_gpus_utilization": {"ip": "10.0.0.1", "GpuIndex": "0"},
    "ray_node_gram_used": {"ip": "10.0.0.1", "GpuIndex": "0"},
}
"""Metrics of Ray with their labels, as the collector `scrape` records them."""


def going_on(stop: str) -> bool:
    return not os.path.exists(stop)


def gauges(stop: str) -> None:
    """Set the gauges of what this machine does not have."""
    run = telemetry.start("gauges")
    errors = run.counter("gpu.ecc_errors", kind="corrected", gpu="0")
    while going_on(stop):
        for name, unit in GPU.items():
            run.gauge(name, unit=unit, gpu="0").set(40.0 + 10.0 * math.sin(time.monotonic()))
        run.gauge("gpu.throttled", gpu="0", reason="hardware_thermal").set(0)
        for name, unit in HOST.items():
            run.gauge(name, unit=unit).set(1.0)
        for name, labels in RAY.items():
            run.gauge(name, labels=labels).set(3.0 + math.sin(time.monotonic()))
        errors.add(1)
        time.sleep(0.05)


def requests(stop: str, number: int) -> None:
    """Send requests one after the other. Every tenth fails, every fiftieth has no outcome."""
    run = telemetry.start("load")
    run.expect("sent", 20_000)
    chat = run.requests("chat", expire_s=0.5, slo="ttft:7ms latency:30ms", model="m-7b")
    sent = run.counter("sent")
    negative = run.series("negative", unit="ms")
    while going_on(stop):
        number += 1
        request = chat.issue(planned=time.monotonic_ns() - 1_000_000, input_tokens=12)
        sent.add(1)
        if number % 50 == 0:
            negative.record(-1.0)  # is dropped
            continue
        time.sleep(0.002 + 0.001 * (number % 10))
        if number % 10 == 0:
            request.fail("timeout")
            continue
        for _ in range(4):
            request.chunk(tokens=2)
            time.sleep(0.003)
        request.complete(finish_reason="stop" if number % 3 else "length")


def train(rank: int, barrier: Barrier, stop: str) -> None:
    """Train as one rank. Rank 1 works longer."""
    os.environ["RANK"] = str(rank)
    run = telemetry.start("train")
    telemetry.stragglers(wait="all_reduce", axis="train")
    depth = run.gauge("queue.depth", rank=str(rank))
    step = 0
    while True:
        with run.span("compute"):
            time.sleep(0.02 + 0.01 * rank)
        with run.span("all_reduce"):
            barrier.wait()
            ending = not going_on(stop)
            barrier.wait()
        depth.set(step % 7)
        run.log({"train/loss": 1.0 / (1 + step), "lr": 1e-3 * 0.99**step}, step=step, axis="train")
        run.end_step(step, axis="train")
        step += 1
        if ending:
            break
    run.finish()


def main() -> None:
    stop = sys.argv[1]
    sleeper = subprocess.Popen(["sleep", "600"])
    barrier = multiprocessing.Barrier(2)
    ranks = [multiprocessing.Process(target=train, args=(rank, barrier, stop)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    run = telemetry.start("main")
    threads = [threading.Thread(target=requests, args=(stop, number)) for number in range(3)]
    threads.append(threading.Thread(target=gauges, args=(stop,)))
    for thread in threads:
        thread.start()
    for other in (*threads, *ranks):
        other.join()
    sleeper.kill()
    sleeper.wait()
    run.finish()


if __name__ == "__main__":
    main()
