"""A timeline of Relax: the begin and the end of an event, logged apart and reported with their step."""

import time

from telemetry.compat.relax.client import MetricsClient

client = MetricsClient()


def perform_forward_pass():
    time.sleep(0.02)


event_begin = {
    "name": "forward_pass",
    "ph": "B",
    "ts": int(time.time() * 1e6),
    "pid": 0,
    "tid": 0,
    "args": {"step": 100},
}
client.log_metric(step=100, metric_name="timeline", metric_value=[event_begin])

perform_forward_pass()

event_end = {
    "name": "forward_pass",
    "ph": "E",
    "ts": int(time.time() * 1e6),
    "pid": 0,
    "tid": 0,
    "args": {"step": 100},
}
client.log_metric(step=100, metric_name="timeline", metric_value=[event_end])

client.report_step(step=100)
