"""What a page of metrics costs the collector `scrape`, and prometheus_client's parser for the same page.

    python -m benchmarks.scrape [--tiny]

The page is like that of an LLM server: 1,020 lines and 104 KB, histograms with 23 buckets and gauges, two labels.
A run reads it a thousand times, so the row that counts is that of a page whose series the reader knows. The last
rows are whole samples: the page over HTTP from a process of its own, and its figures in a run.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.forms import tiny_asked
from telemetry.collectors.collector import Target
from telemetry.collectors.scrape.collector import Scrape
from telemetry.collectors.scrape.text import PageReader
from telemetry.testing.collectors import MemoryRun

LIMIT_MS: Final = 1.5
SAMPLE_LIMIT_MS: Final = 5.0
_LINES: Final = 1_000
_LABELS: Final = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'
_BOUNDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0),
    *(80.0, 160.0, 640.0, 2560.0),
)
_SERVER: Final = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
page = open(sys.argv[1], "rb").read()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)
    def log_message(self, *words):
        pass
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def make_page() -> bytes:
    """A page with about a thousand lines."""
    chance = random.Random(7)
    lines: list[str] = []
    while len(lines) < _LINES:
        name = f"vllm:request_metric_{len(lines)}_seconds"
        lines += [f"# HELP {name} Histogram of something in seconds.", f"# TYPE {name} histogram"]
        count = 0
        for bound in _BOUNDS:
            count += chance.randint(0, 9)
            lines.append(f'{name}_bucket{{{_LABELS},le="{bound}"}} {float(count)}')
        lines.append(f'{name}_bucket{{{_LABELS},le="+Inf"}} {float(count)}')
        lines += [f"{name}_count{{{_LABELS}}} {float(count)}", f"{name}_sum{{{_LABELS}}} {count * 1.7}"]
        gauge = f"vllm:gauge_{len(lines)}"
        lines += [f"# HELP {gauge} Gauge", f"# TYPE {gauge} gauge", f"{gauge}{{{_LABELS}}} {chance.random()}"]
    return ("\n".join(lines) + "\n").encode()


def cpu_ms(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Smallest and median CPU time of a call, in ms."""
    taken = []
    for _ in range(rounds):
        begin = time.thread_time_ns()
        work()
        taken.append((time.thread_time_ns() - begin) / 1e6)
    return min(taken), statistics.median(taken)


@contextmanager
def served(page: bytes) -> Iterator[int]:
    """The port of a server of this page, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page"
        path.write_bytes(page)
        server = subprocess.Popen([sys.executable, "-c", _SERVER, str(path)], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()
            server.communicate()


def samples_ms(page: bytes, metrics: str, rounds: int) -> tuple[float, float]:
    """CPU time of whole samples, after the first two."""
    with served(page) as port:
        target = Target(collector="scrape")
        scrape = Scrape(Scrape.Options(url=f"127.0.0.1:{port}", metrics=metrics, timeout=30.0), target)
        run = MemoryRun()
        for _ in range(2):
            scrape.sample(run)
        taken = cpu_ms(lambda: scrape.sample(run), rounds)
        scrape.close()
    return taken


def main() -> None:
    tiny = tiny_asked("cost of the collector scrape")
    rounds = 2 if tiny else 40
    page = make_page()
    text = page.decode()
    reader = PageReader()
    theirs_samples = [
        (one.name, one.labels, one.value)
        for family in text_string_to_metric_families(text)
        for one in family.samples
    ]
    ours_samples = [(one.series.name, one.series.labels, one.value) for one in reader.read(page).samples]
    assert ours_samples == theirs_samples
    rows = [
        ("read a page whose series are known", cpu_ms(lambda: reader.read(page), rounds), LIMIT_MS),
        ("read a first page", cpu_ms(lambda: PageReader().read(page), rounds), None),
        (
            "prometheus_client's parser",
            cpu_ms(lambda: list(text_string_to_metric_families(text)), max(2, rounds // 4)),
            None,
        ),
        ("a whole sample, all series", samples_ms(page, "", rounds), SAMPLE_LIMIT_MS),
        ("a whole sample, 4 metrics of it", samples_ms(page, "vllm:request_metric_1*", rounds), None),
    ]
    lines = text.count("\n")
    print(
        f"page of {lines:,} lines, {len(page) / 1_000:.0f} KB, {len(ours_samples)} samples, {os.cpu_count()} cores"
    )
    print("| what | least | median | bound |")
    print("|---|---:|---:|---:|")
    for what, (least, median), limit in rows:
        bound = "" if limit is None else f"{limit:g} ms"
        print(f"| {what} | {least:.2f} ms CPU | {median:.2f} ms CPU | {bound} |")


if __name__ == "__main__":
    main()
