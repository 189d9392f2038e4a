"""A program of RL-Insight 0.3: metrics, states, operations, a session and scrape targets."""

import asyncio
import sys
import time
from types import SimpleNamespace

connections = []


def hook(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):  # addresses of a network are pairs
        connections.append(arguments[1])


sys.addaudithook(hook)

import rl_insight  # noqa: E402


@rl_insight.trace_op("double", extra_labels=lambda number: {"number": number}, phase="static")
def double(number):
    return 2 * number


@rl_insight.trace_op()
async def wait(seconds):
    await asyncio.sleep(seconds)
    return "waited"


rl_insight.init(project="p", experiment_name="e")
rl_insight.metric_count("train_step", 2, worker="w0")
rl_insight.metric_count("train_step", worker="w0")
rl_insight.metric_gauge("actor_lr", 0.001)
rl_insight.metric_gauge("actor_lr", 0.002, worker=3)
for sample in (12, 300, 900, -5):
    rl_insight.metric_histogram("step_latency_ms", sample)
with rl_insight.trace_state("rollout", state_lane_id="replica-0", step=3):
    time.sleep(0.01)
    with rl_insight.trace_state("rollout", state_lane_id="replica-0"):
        pass
print(double(4), asyncio.run(wait(0.001)))
now = time.time_ns()
rl_insight.trace_span(name="direct", start_time_ns=now - 1_000_000, end_time_ns=now, attributes={"turn": 1})
session = rl_insight.agent_loop_session(project="p", experiment_name="e", sample=3, session=1, global_steps=7)
session.finish(trajectories=[SimpleNamespace(chain_id=1, reward_score=0.5, num_turns=4)], status="ok")
try:
    rl_insight.update_prometheus_config(["h:1"], "vllm", [])
except ValueError as error:
    print("ValueError:", error)
rl_insight.update_prometheus_config(["10.0.0.1:8000", "10.0.0.2:8000"], "vllm", [{"replica": 0}, None])
rl_insight.finish()
rl_insight.metric_gauge("too_late", 1.0)
print("connections:", connections)
