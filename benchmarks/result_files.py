"""The time and the memory of importing k6's JSON: `python -m benchmarks.result_files [--requests 1000000]`.

The file has nine lines a request, as k6 writes them: 2.5 GB for a million. It is written to a folder first.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

_TAGS: Final = (
    '"tags":{"expected_response":"%s","group":"","method":"GET","name":"http://localhost/%d","proto":"HTTP/1.1",'
    '"scenario":"default","status":"%d","url":"http://localhost/%d"}'
)
_PHASES: Final = (("blocked", 0.01), ("connecting", 0), ("tls_handshaking", 0), ("sending", 0.02))
_APART_US: Final = 100


def write(path: Path, requests: int) -> None:
    """Write the samples of so many requests, 10,000 a second."""
    randomness = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        for number in range(requests):
            at_us = number * _APART_US
            minutes, seconds = divmod(at_us // 1_000_000, 60)
            time_text = f"2026-11-01T10:{minutes:02d}:{seconds:02d}.{at_us % 1_000_000:06d}Z"
            took_ms = randomness.lognormvariate(2, 0.5)
            is_bad, place = randomness.random() < 0.01, number % 5
            tags = _TAGS % ("false" if is_bad else "true", place, 500 if is_bad else 200, place)
            samples = [("http_reqs", 1.0), ("http_req_duration", round(took_ms, 6))]
            samples += [(f"http_req_{name}", value) for name, value in _PHASES]
            samples += [("http_req_waiting", round(took_ms - 0.05, 6)), ("http_req_receiving", 0.03)]
            samples.append(("http_req_failed", int(is_bad)))
            for metric, value in samples:
                file.write(
                    f'{{"metric":"{metric}","type":"Point","data":{{"time":"{time_text}","value":{value:g},{tags}}}}}\n'
                )


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k6.json")
        write(path, args.requests)
        begun_s = time.monotonic()
        command = [sys.executable, "-m", "telemetry", "import", str(path), "--dir", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took_s = time.monotonic() - begun_s
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        figures = {
            "requests": args.requests,
            "file_mb": round(path.stat().st_size / 1e6),
            "seconds": round(took_s, 1),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
            "peak_mib": round(usage.ru_maxrss / 1024),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
