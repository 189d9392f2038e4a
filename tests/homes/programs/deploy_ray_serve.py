"""Deploys the metrics service on a Ray of its own, logs one step, and ends without deleting anything."""

import sys

import ray
from ray import serve

from telemetry.compat.relax import MetricsClient
from telemetry.gateway import ray_serve

port, folder = int(sys.argv[1]), sys.argv[2]
ray.init(num_cpus=1, object_store_memory=80_000_000, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
serve.start(http_options={"port": port})
client = MetricsClient(ray_serve.deploy(), report_timeout_s=30.0)
client.log_metric(7, "loss", 0.5)
print(client.report_step(7)["status"])
