"""The check of addresses in a process of its own: `telemetry run` loads no Apprise, and its memory stays small.

stdin: a JSON list of addresses. stdout: a JSON list of [number, reason] for those that are invalid.
"""

from __future__ import annotations

import sys

import msgspec

from telemetry.backends.notify.apprise_receiver import problems

if __name__ == "__main__":
    urls = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    sys.stdout.buffer.write(msgspec.json.encode(problems(urls)))
