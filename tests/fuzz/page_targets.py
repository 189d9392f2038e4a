"""Fuzz targets for the answers of a server to the collector `scrape`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from tests.fuzz.target import MIB, Target
from tests.fuzz.text_forms import Text

from telemetry.collectors.scrape import conversion, text
from telemetry.collectors.scrape.conversion import Conversion, ScrapeBudget
from telemetry.collectors.scrape.selection import MetricSelection
from telemetry.collectors.scrape.text import OPEN_METRICS, PageReader
from telemetry.testing.collectors import MemoryRun

_VLLM: Final = Path(__file__).parents[1] / "unit" / "collectors" / "scrape" / "vllm_page.txt"
_SERIES: Final = 50
_OF_ONE_SERIES: Final = 4
"""Gauges of a histogram."""
_SELECTION: Final = MetricSelection("*")


class PageText(Text):
    """Lines of the text format."""

    token = rb'"(?:[^"\\]|\\.)*"|# \w+|[\w:.+-]+|\n|\S'
    treasures = (
        *b'{ } = , " \\ {} {,} a{b="c"} {b="c" {b=c} # # a_bucket a_count a_sum a_total a_created a_info'.split(),
        *b'le="+Inf" le="NaN" le="" le="-1" quantile="2" NaN +Inf -Inf 1e999 -1 1_0 0x1p3 1e-999 inf'.split(),
        *(b"# TYPE a histogram\n", b"# TYPE a counter\n", b"# TYPE a info\n", b"# UNIT a seconds\n", b"# EOF\n"),
        *(
            b"\n",
            b"\r\n",
            b"\t",
            b" ",
            b"\0",
            b"\xff",
            b"\xed\xa0\x80",
            b"\xe2\x80\xa8",
            b" 1700000000000",
            b" 1 2 3",
        ),
        *(b'a{b="\\', b'"' * 99, b"{" * 300, b"x" * 300, b"9" * 400, b'l="v",' * 40, b'# {a="b"} 1 2'),
    )


def run_page(data: bytes) -> int:
    """A server that answers the same three times: read, and made into series within the limits."""
    for content_type in ("", OPEN_METRICS):
        run, reader = MemoryRun(), PageReader()
        converted = Conversion(run, _SELECTION, ScrapeBudget(_SERIES), labels={"instance": "h:1"})
        for at in range(3):
            page = reader.read(data, content_type)
            assert len(page.samples) + page.malformed <= data.count(b"\n") + 1
            assert (page.first_malformed == "") == (page.malformed == 0)
            converted.take(page, 100.0 + at)
        assert run.refused == 0
        assert len(run.definitions) <= _OF_ONE_SERIES * _SERIES
        assert all(math.isfinite(value) for values in run.values.values() for value in values)
    return 1


def _seeds() -> list[bytes]:
    lines = _VLLM.read_bytes().splitlines(keepends=True)
    pages = [b"".join(lines[at : at + 12]) for at in range(0, 480, 60)]
    return [
        *pages,
        b'# TYPE h histogram\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n',
        b'# TYPE s summary\ns{quantile="0.5"} NaN\ns_sum 3\ns_count 2 1700000000000\n',
        b'# TYPE c counter\nc_total 1e6 # {id="a"} 1 1.5\nc_created 1.7e9\n# EOF\n',
        b'# TYPE i info\ni_info{a="b\\n\\"\\\\"} 1\n',
        b'# TYPE "a.b" counter\n{"a.b","c.d"="e",f="g"} 1\n',
    ]


TARGETS: Final = (
    Target(
        name="page",
        run=run_page,
        form=PageText(),
        seeds=_seeds,
        covers=(text, conversion),
        head=b'# TYPE a histogram\na_bucket{le="1"} ',
        base_bytes=2 * MIB,
        bytes_each=800,
    ),
)
