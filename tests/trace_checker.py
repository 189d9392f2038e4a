"""A strict reader of trace files in the Chrome trace format: viewers may need all that it asks for."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

_PHASES: Final = frozenset("XMisfC")
_METADATA: Final = frozenset({"process_name", "process_sort_index", "thread_name", "thread_sort_index"})


def problems(data: bytes) -> list[str]:
    """Return what is wrong with a document."""
    whole = json.loads(data, parse_constant=_refuse)
    if set(whole) != {"traceEvents", "displayTimeUnit", "otherData"} or whole["displayTimeUnit"] != "ms":
        return [f"odd keys {sorted(whole)}"]
    events = whole["traceEvents"]
    return [
        *_odd_events(events),
        *_nameless(events),
        *_unsorted(events),
        *_not_nested(events),
        *_loose_flows(events),
    ]


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _odd_events(events: list[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        kind = event.get("ph")
        if kind not in _PHASES or not isinstance(event.get("pid"), int) or not isinstance(event.get("tid"), int):
            yield f"odd event {event}"
        elif not isinstance(event.get("name"), str) or not event["name"]:
            yield f"event without a name {event}"
        elif kind == "M":
            if event["name"] not in _METADATA or len(event["args"]) != 1:
                yield f"odd metadata {event}"
        elif not isinstance(event.get("ts"), (int, float)) or not math.isfinite(event["ts"]):
            yield f"event without a time {event}"
        elif kind == "X" and not (isinstance(event.get("dur"), (int, float)) and event["dur"] >= 0):
            yield f"slice without a duration {event}"
        elif kind in "sf" and not event.get("id"):
            yield f"flow without an id {event}"
        elif kind == "C" and not all(isinstance(value, (int, float)) for value in event["args"].values()):
            yield f"counter without numbers {event}"


def _nameless(events: list[dict[str, Any]]) -> Iterator[str]:
    named = defaultdict(set)
    for event in events:
        if event["ph"] == "M":
            named[event["name"]].add((event["pid"], event["tid"]))
    processes = {pid for pid, _ in named["process_name"]}
    for event in events:
        if event["pid"] not in processes:
            yield f"process {event['pid']} has no name"
        is_span = event["ph"] == "X" and event["cat"] == "span"
        if is_span and (event["pid"], event["tid"]) not in named["thread_name"]:
            yield f"thread {event['tid']} of process {event['pid']} has no name"


def _unsorted(events: list[dict[str, Any]]) -> Iterator[str]:
    times = [event["ts"] for event in events if event["ph"] != "M"]
    if times != sorted(times):
        yield "events are not in the order of time"


def _not_nested(events: list[dict[str, Any]]) -> Iterator[str]:
    open_slices: dict[tuple[int, int], list[float]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            ends = open_slices[event["pid"], event["tid"]]
            end = event["ts"] + event["dur"]
            while ends and ends[-1] <= event["ts"]:
                ends.pop()
            if ends and end > ends[-1]:
                yield f"slice {event['name']} at {event['ts']} outlasts the slice that it is in"
            ends.append(end)


def _loose_flows(events: list[dict[str, Any]]) -> Iterator[str]:
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for event in events:
        if event["ph"] in "sf":
            inside = any(start <= event["ts"] <= end for start, end in slices[event["pid"], event["tid"]])
            if not inside:
                yield f"flow {event['id']} is in no slice"
