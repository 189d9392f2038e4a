"""The monitor of RL-Insight in a training program on Ray: metrics, a state, an operation and a scrape target."""

import os

import ray

import telemetry.compat.rl_insight as insight

os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://<server-ip>:4318/v1/traces"

ray.init(address="auto", namespace="rl-insight-monitor")
insight.init()

insight.metric_count("train_step_total", amount=1, worker="trainer_0")
insight.metric_value("reward_mean", value=1.23, worker="trainer_0")
insight.metric_distribution("step_latency_ms", value=42.5, worker="trainer_0")


def run_rollout():
    return "rolled out"


with insight.trace_state("rollout", state_lane_id="trainer_0", step=10):
    run_rollout()


@insight.trace_op("update_model", stage="optimizer")
def update_model(batch):
    return batch


update_model([1, 2])

insight.update_prometheus_config(
    conf={
        "prometheus": {
            "config_file": "/path/to/prometheus.yml",
            "prometheus_port": 9090,
            "reload": {"mode": "ray"},
        }
    },
    server_addresses=["127.0.0.1:9092"],
)
