"""The gateway as an application of Ray Serve.

    from telemetry.gateway import ray_serve

    url = ray_serve.deploy(replicas=2)  # http://127.0.0.1:8000/metrics
    ...
    ray_serve.delete()

A program that was written for Relax binds the service itself:

    from telemetry.gateway.ray_serve import MetricsService

    serve.run(MetricsService.bind(config=args), name="metrics", route_prefix="/metrics")

Replicas hold nothing: what is buffered lives in the aggregator of the run, so replicas may share a step.
"""

from __future__ import annotations

from telemetry.gateway.ray_serve.deployment import MetricsService, delete, deploy, url

__all__ = ["MetricsService", "delete", "deploy", "url"]
