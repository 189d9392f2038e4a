"""Faults of a run on several machines, at random moments: `python -m benchmarks.nodes.faults [--times 20]`.

The machines are namespaces of this host, so this needs root, and `faketime` for clocks that are wrong. Each trial
has a root and three nodes with two producers each. Afterwards what remains must be complete and exact to the event.
What is lost must be named. No process may be left.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.namespaces import Machine, can_separate

from benchmarks.nodes.fleet import Fleet, Served, wrong_clock

NODES: Final = 3
PRODUCERS: Final = 2
WANTED: Final = ("50", "90", "99", "99.9")
LONGEST_END_S: Final = 60.0


def check_whole(fleet: Fleet, final: dict[str, Any], *, exact: bool = True) -> None:
    """Check that all that was recorded is in the result, once."""
    accounting = final["accounting"]
    told = {key: final[key] for key in ("completeness", "exact", "exact_reason", "accounting", "warnings", "nodes")}
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), told
    assert _value(final) == _count(final) == fleet.made, (fleet.made, told)
    assert accounting["emitted"] == accounting["applied"], told
    if exact:
        assert final["exact"], told
        [series] = [stat for stat in final["series"] if stat["name"] == "value"]
        assert {key: series["percentiles"][key] for key in WANTED} == fleet.percentiles(WANTED)


def check_lacking(final: dict[str, Any], node: str) -> None:
    """Check that a result is not called complete, and names the node."""
    assert final["completeness"] != "complete", final["warnings"]
    [stat] = [stat for stat in final["nodes"] if stat["node"] == node]
    assert stat["completeness"] != "complete", stat
    assert any(node in warning for warning in final["warnings"]), final["warnings"]


def _value(final: dict[str, Any]) -> float:
    return float(sum(stat["value"] for stat in final["counters"] if stat["name"] == "n"))


def _count(final: dict[str, Any]) -> int:
    return int(sum(stat["count"] for stat in final["series"] if stat["name"] == "value"))


def some_time(most_s: float = 4.0) -> None:
    time.sleep(random.uniform(0.0, most_s))


def end(fleet: Fleet) -> dict[str, Any]:
    """Let the producers finish and end the run. Check that the end takes no longer than it may."""
    fleet.finish()
    began = time.monotonic()
    final = fleet.stop(fleet.root)
    assert time.monotonic() - began < LONGEST_END_S
    return final


# --- faults --------------------------------------------------------------------------------------


def nothing(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    check_whole(fleet, end(fleet))


def leaf_killed(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    name = random.choice(list(fleet.leaves))
    fleet.leaves[name].kill()
    some_time(2.0)
    fleet.leaves[name] = fleet.resume(fleet.leaves[name])
    some_time()
    check_whole(fleet, end(fleet))


def leaf_lost(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    name = random.choice(list(fleet.leaves))
    fleet.leaves[name].kill()
    check_lacking(end(fleet), name)


def root_killed(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    fleet.root.kill()
    some_time(2.0)
    fleet.root = fleet.resume(fleet.root)
    some_time()
    check_whole(fleet, end(fleet))


def both_killed(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    name = random.choice(list(fleet.leaves))
    for served in random.sample([fleet.root, fleet.leaves[name]], 2):
        served.kill()
        some_time(0.5)
    fleet.leaves[name] = fleet.resume(fleet.leaves[name])
    some_time(1.0)
    fleet.root = fleet.resume(fleet.root)
    some_time()
    check_whole(fleet, end(fleet))


def link_down_for_a_while(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    machine = random.choice(fleet.machines)
    machine.cut()
    some_time(8.0)
    machine.mend()
    some_time()
    check_whole(fleet, end(fleet))


def link_down_for_good(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    machine = random.choice(fleet.machines)
    machine.cut()
    check_lacking(end(fleet), machine.name)
    leaf = fleet.leaves[machine.name]
    fleet.stop(leaf)
    assert leaf.result()["completeness"] == "complete", leaf.result()["warnings"]


def power_off(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    machine = random.choice(fleet.machines)
    machine.power_off()
    check_lacking(end(fleet), machine.name)


def late_node(fleet: Fleet) -> None:
    *early, late = fleet.machines
    fleet.root = fleet.start_root("--nodes", str(len(fleet.machines)))
    for machine in early:
        fleet.join(machine)
    some_time()
    fleet.join(late)
    some_time()
    check_whole(fleet, end(fleet))


def clock_skew(fleet: Fleet) -> None:
    fleet.root = fleet.start_root("--nodes", str(len(fleet.machines)))
    for machine in fleet.machines:
        fleet.join(machine, wrong_clock(random.uniform(-2.0, 2.0)))
    some_time()
    _await_times_of_root(fleet)
    final = end(fleet)
    check_whole(fleet, final)
    marks = [mark["time_ns"] for mark in final["marks"]]
    first_ns = final["started_ns"]
    assert all(first_ns < at_ns < final["time_ns"] for at_ns in marks), (first_ns, marks)


def _await_times_of_root(fleet: Fleet) -> None:
    """Wait until the newest interval of each node has just ended by the clock of the root.

    On a busy machine an interval may take seconds to arrive. A clock that is not corrected never gets there.
    """
    deadline_s = time.monotonic() + LONGEST_END_S
    while True:
        status = fleet.status(fleet.root)
        ages_s = {node["node"]: (status["time_ns"] - node["interval_ns"]) / 1e9 for node in status["nodes"]}
        if len(ages_s) == len(fleet.machines) and all(-0.5 < age_s < 1.5 for age_s in ages_s.values()):
            return
        assert time.monotonic() < deadline_s, ages_s
        time.sleep(0.05)


def foreign_key(fleet: Fleet) -> None:
    *known, stranger = fleet.machines
    fleet.root = fleet.start_root("--nodes", ",".join(machine.name for machine in known))
    for machine in known:
        fleet.join(machine)
    refused = fleet.start_leaf(stranger, environment=fleet.foreign_key())
    some_time()
    check_whole(fleet, end(fleet))
    own = fleet.stop(refused)
    assert any("key" in warning for warning in own["warnings"]), own["warnings"]


def producer_killed(fleet: Fleet) -> None:
    fleet.start()
    some_time()
    machine = fleet.kill_a_producer()
    final = end(fleet)
    check_lacking(final, machine.name)
    assert _value(final) >= fleet.made


def two_jobs(fleet: Fleet) -> None:
    first, second, third = fleet.machines
    fleet.root = fleet.start_root("--nodes", f"{first.name},{second.name}")
    other = fleet.start_root("--nodes", third.name, port=5858, name="other")
    fleet.join(first)
    fleet.join(second)
    leaf = _leaf_of(fleet, third, other)
    some_time()
    check_whole(fleet, end(fleet))
    final = fleet.stop(other)
    assert [node["node"] for node in final["nodes"]] == [third.name]
    assert final["completeness"] == "complete", final["warnings"]
    assert _value(final) == 0
    leaf.process.communicate(timeout=120)


def _leaf_of(fleet: Fleet, machine: Machine, root: Served) -> Served:
    leaf = fleet.leaves[machine.name] = fleet.start_leaf(machine, root)
    return leaf


FAULTS: Final[tuple[Callable[[Fleet], None], ...]] = (
    *(nothing, leaf_killed, leaf_lost, root_killed, both_killed, link_down_for_a_while, link_down_for_good),
    *(power_off, late_node, clock_skew, foreign_key, producer_killed, two_jobs),
)


def leftovers(fleet: Fleet) -> list[int]:
    """Return processes that are still there some seconds after the run has ended."""
    until = time.monotonic() + 20.0
    left = [pid for machine in fleet.network.machines for pid in machine.pids()]
    while left and time.monotonic() < until:
        time.sleep(0.1)
        left = [pid for machine in fleet.network.machines for pid in machine.pids()]
    return left


def trial(fault: Callable[[Fleet], None], nodes: int = NODES, producers: int = PRODUCERS) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        Fleet(Path(folder), nodes, producers) as fleet,
    ):
        fault(fleet)
        for leaf in fleet.leaves.values():
            if fault in {leaf_lost, power_off}:
                break
            leaf.process.communicate(timeout=120)
        left = leftovers(fleet) if fault not in {leaf_lost, power_off} else []
        assert not left, left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", action="append", default=[])
    args = parser.parse_args()
    if not can_separate():
        print("this needs root, and the programs ip, unshare and nsenter", file=sys.stderr)
        return 2
    failed = 0
    for fault in FAULTS:
        if args.only and fault.__name__ not in args.only:
            continue
        took = []
        for number in range(args.times):
            random.seed(f"{fault.__name__} {number}")
            began = time.monotonic()
            try:
                trial(fault)
            except Exception:  # noqa: BLE001 – one failed trial must not hide the others
                failed += 1
                print(f"{fault.__name__} {number}", traceback.format_exc(), flush=True)
            took.append(time.monotonic() - began)
        print(f"{fault.__name__:24} {args.times} times, longest {max(took):.1f} s", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
