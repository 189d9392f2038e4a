"""Producers that come, say little and leave: ZeroMQ and msgpack, nothing of ours.

    python visitors.py CONTROL PREFIX HOW_MANY EVENTS

Each is greeted, sends one batch of so many increments of the counter `visits`, says its end and closes its sockets.
Prints one JSON object: how many were answered with which type.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from typing import Any

import msgspec
import zmq

THREADS = 8
PATIENCE_MS = 60_000
pack, unpack = msgspec.msgpack.encode, msgspec.msgpack.decode


def visit(context: zmq.Context[zmq.Socket[bytes]], control: str, who: str, events: int) -> str:
    """The type of the last answer."""
    with context.socket(zmq.DEALER) as asking, context.socket(zmq.XPUB) as telling:
        for one in (asking, telling):
            one.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
            one.setsockopt(zmq.LINGER, 0)
        asking.setsockopt(zmq.ROUTING_ID, who.encode())
        telling.setsockopt(zmq.XPUB_NODROP, 1)
        asking.connect(control)
        asking.send(pack({"type": "hello", "id": 1, "producer": who}))
        welcome = answer(asking, 1)
        if welcome["type"] != "welcome":
            return str(welcome["type"])
        telling.connect(welcome["events"])
        telling.recv()
        batch = [[1, 0], who, 0, 0, [0, 0], {}, [["count", "visits"]] * events, []]
        telling.send(b"ev/1\0\0\0\0" + pack(batch))
        asking.send(pack({"type": "end", "id": 2, "producer": who, "batches": 1, "emitted": events}))
        return str(answer(asking, 2)["type"])


def answer(asking: zmq.Socket[bytes], number: int) -> Any:
    while (said := unpack(asking.recv()))["id"] != number:
        pass
    return said


def main() -> None:
    control, prefix, how_many, events = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    numbers = iter(range(how_many))
    answers: list[str] = []
    with zmq.Context() as context:

        def go_on() -> None:
            for number in numbers:
                answers.append(visit(context, control, f"{prefix}{number}", events))

        threads = [threading.Thread(target=go_on) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(json.dumps(Counter(answers)))


if __name__ == "__main__":
    main()
