"""A program, an aggregator with its journal, a subscriber: three processes, everything real."""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.harness import Figure, Outcome, Round, Size, Worker, median, paired_ratio, rotated, summary
from benchmarks.message_peer import NAME as PEER
from benchmarks.watch import WatchedRun, cpu_percent, longest_gap_ms, ticks_per_s

_SECONDS: Final[dict[Size, float]] = {"full": 10.0, "quick": 3.0, "tiny": 0.5}
_WARM_UP_S: Final[dict[Size, float]] = {"full": 1.5, "quick": 1.0, "tiny": 0.1}
_ROUNDS: Final[dict[Size, int]] = {"full": 3, "quick": 1, "tiny": 1}
_SLOW, _FAST, _FLOOD = "paced 10k", "paced 500k", "flood"
_RATES: Final = {_SLOW: 10_000, _FAST: 500_000, _FLOOD: 0}
_PEER_SETTLE_S: Final = 20.0


def run(size: Size) -> Outcome:
    rounds: dict[str, list[Round]] = {}
    for turn in range(_ROUNDS[size]):
        for name in rotated(list(_RATES), turn):
            seconds, warm_up_s = _SECONDS[size], _WARM_UP_S[size]
            rounds.setdefault(name, []).append(ours(_RATES[name], seconds, warm_up_s))
            rounds.setdefault(f"{PEER}, {name}", []).append(peers(_RATES[name], min(3.0, seconds)))
    return Outcome(_figures(rounds), {name: summary(taken, _keys(taken[0])) for name, taken in rounds.items()})


def _keys(one: Round) -> list[str]:
    return [key for key, value in one.items() if isinstance(value, int | float)]


def ours(rate: int, seconds: float, warm_up_s: float) -> Round:
    """One run. A flood blocks when the buffer is full; a paced load drops, if it must."""
    policy = "drop" if rate else "block"
    with WatchedRun("bench", policy) as watched:
        warm = watched.record(seconds=warm_up_s, rate=rate or 50_000)["events"]
        watched.watch.applied_by(warm)
        begin = time.monotonic_ns()
        load = watched.record(seconds=seconds, rate=rate)
        loaded = time.monotonic_ns()
        done = watched.watch.applied_by(warm + load["events"])
        sights = watched.watch.between(begin, loaded)
        result = watched.finish()
        return {
            "recorded": warm + load["events"],
            "applied": result["applied"],
            "lost": warm + load["events"] - result["applied"],
            "unaccounted": warm + load["events"] - result["applied"] - result["lost"],
            "events_per_s": load["events"] / ((done.arrived_ns - begin) / 1e9),
            "producer_cpu_ns": load["cpu_ns"],
            "cpu_percent": cpu_percent(sights),
            "ticks_per_s": ticks_per_s(sights),
            "longest_gap_ms": longest_gap_ms(sights),
            "rss_bytes": max((sight.rss_bytes for sight in sights), default=0),
            "completeness": result["completeness"],
        }


def peers(rate: int, seconds: float) -> Round:
    """The same load, one message for each event."""
    with Worker("benchmarks.message_peer", "receiver") as receiver:
        before = receiver.measure()
        with Worker("benchmarks.message_peer", "sender") as sender:
            sent = sender.measure(address=before["address"], seconds=seconds, rate=rate)
            after = _received(receiver, sent["sent"] - sent["dropped"])
    span_s = (after["time_ns"] - before["time_ns"]) / 1e9
    return {
        "events_per_s": after["received"] / span_s,
        "lost": sent["sent"] - after["received"],
        "lost_percent": 100.0 * (sent["sent"] - after["received"]) / sent["sent"],
        "cpu_percent": 100.0 * (after["cpu_ns"] - before["cpu_ns"]) / 1e9 / span_s,
    }


def _received(receiver: Worker, events: int) -> dict[str, Any]:
    """The receiver's state once it has everything, or has stopped getting more."""
    deadline = time.monotonic() + _PEER_SETTLE_S
    state = receiver.measure()
    while state["received"] < events and time.monotonic() < deadline:
        time.sleep(0.02)
        state = receiver.measure()
    return state


def _figures(rounds: dict[str, list[Round]]) -> list[Figure]:
    def against(name: str, key: str) -> dict[str, Any]:
        theirs = rounds[f"{PEER}, {name}"]
        ratio = paired_ratio(rounds[name], theirs, key)
        return {"peer": PEER, "peer_value": median(theirs, key), "ratio": ratio}

    def worst(name: str, key: str) -> float:
        return float(max(one[key] for one in rounds[name]))

    flood_ticks = min(float(one["ticks_per_s"]) for one in rounds[_FLOOD])
    peer_lost_percent = worst(f"{PEER}, {_FAST}", "lost_percent")
    return [
        Figure("500k events/s for a while, lost (worst round)", worst(_FAST, "lost"), "events", 0.0),
        Figure(
            "the same, in percent of all",
            _percent(rounds[_FAST]),
            "%",
            0.0,
            peer=PEER,
            peer_value=peer_lost_percent,
        ),
        Figure(
            "flood, policy `block`, ingested",
            median(rounds[_FLOOD], "events_per_s"),
            "events/s",
            4_000_000.0,
            "higher",
            **against(_FLOOD, "events_per_s"),
        ),
        Figure("flood, policy `block`, lost (worst round)", worst(_FLOOD, "lost"), "events", 0.0),
        Figure("flood, snapshots a second (worst round; 10 asked)", flood_ticks, "Hz", 9.0, "higher"),
        Figure(
            "aggregator at 10k events/s, journal on",
            median(rounds[_SLOW], "cpu_percent"),
            "% of a core",
            8.0,
            **against(_SLOW, "cpu_percent"),
        ),
        Figure(
            "aggregator at 500k events/s, journal on", median(rounds[_FAST], "cpu_percent"), "% of a core", 25.0
        ),
    ]


def _percent(rounds: list[Round]) -> float:
    return max(100.0 * float(one["lost"]) / float(one["recorded"]) for one in rounds)
