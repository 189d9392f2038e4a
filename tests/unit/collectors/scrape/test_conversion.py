"""Pages as instruments: rates, resets, distributions, units, limits."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from telemetry.collectors.scrape.conversion import Conversion, ScrapeBudget, meaning, quantile
from telemetry.collectors.scrape.selection import MetricSelection
from telemetry.collectors.scrape.text import OPEN_METRICS, PageReader
from telemetry.testing.collectors import Key, MemoryRun

VLLM = (Path(__file__).parent / "vllm_page.txt").read_text()


class Server:
    """A server whose pages are converted, five seconds apart."""

    def __init__(
        self, metrics: str = "", *, most: int = 1_000, prefix: str = "", without: str = "", **labels: str
    ) -> None:
        self.run = MemoryRun()
        self.budget = ScrapeBudget(most)
        self.conversion = Conversion(
            self.run,
            MetricSelection(metrics),
            self.budget,
            prefix=prefix,
            labels=labels,
            without=frozenset(filter(None, [without])),
        )
        self.reader = PageReader()
        self.now_s = 100.0

    def page(self, text: str, *, after_s: float = 5.0, content_type: str = "") -> None:
        self.now_s += after_s
        self.conversion.take(self.reader.read(text.encode(), content_type), self.now_s)

    def values(self, name: str, **labels: str) -> list[float]:
        return self.run.values.get(key(name, **labels), [])

    @property
    def units(self) -> dict[str, str]:
        return {one.name: one.unit for one in self.run.definitions}


def key(name: str, **labels: str) -> Key:
    return name, tuple(sorted(labels.items()))


def test_a_gauge_stays_a_gauge() -> None:
    """A gauge stays a gauge with its labels. Values that are not finite are left out."""
    server = Server()
    for value in ("3", "NaN", "+Inf", "4.5"):
        server.page(f'# TYPE depth gauge\ndepth{{queue="a",empty=""}} {value}\n')
    assert server.run.values == {key("depth", queue="a"): [3.0, 4.5]}
    assert server.run.refused == 0


def test_a_counter_has_its_increase_and_its_rate() -> None:
    """The first page gives neither. A page that was missed makes the interval longer."""
    server = Server()
    server.page("# TYPE hits_total counter\nhits_total 1000\n")
    assert server.run.values == {}
    server.page("# TYPE hits_total counter\nhits_total 1010\n")
    server.page("# TYPE hits_total counter\nhits_total 1010\n")
    server.page("# TYPE hits_total counter\nhits_total 1040\n", after_s=15.0)
    assert server.values("hits_total") == [10.0, 30.0]
    assert server.values("hits_total.rate") == [2.0, 0.0, 2.0]


def test_a_server_that_restarts_begins_at_zero() -> None:
    """A restarted server begins at zero, so its increase is all that it has."""
    server = Server()
    for value in (1000, 20, 30):
        server.page(f"# TYPE hits_total counter\nhits_total {value}\n")
    assert server.values("hits_total") == [20.0, 10.0]
    assert server.values("hits_total.rate") == [4.0, 2.0]


def test_a_series_that_comes_later_has_a_first_page_too() -> None:
    """A later series has a first page, too. A series that was away has the rate over the whole time."""
    server = Server()
    server.page("# TYPE hits counter\nhits 1\n")
    server.page('# TYPE hits counter\nhits 2\nhits{code="500"} 7\n')
    server.page("# TYPE hits counter\nhits 3\n")
    server.page('# TYPE hits counter\nhits 4\nhits{code="500"} 17\n')
    assert server.values("hits.rate") == [0.2, 0.2, 0.2]
    assert server.values("hits.rate", code="500") == [1.0]


HISTOGRAM = """# TYPE lat_seconds histogram
lat_seconds_bucket{{le="0.1"}} {0}
lat_seconds_bucket{{le="0.2"}} {1}
lat_seconds_bucket{{le="+Inf"}} {2}
lat_seconds_count {2}
lat_seconds_sum {3}
"""


def test_a_histogram_has_rate_mean_and_percentiles_of_the_interval() -> None:
    """Values before the first page do not count. An interval without values has a rate of 0 only."""
    server = Server()
    server.page(HISTOGRAM.format(900, 900, 900, 50.0))
    assert server.run.values == {}
    server.page(HISTOGRAM.format(900, 910, 910, 51.5))
    assert server.values("lat_seconds.rate") == [2.0]
    assert server.values("lat_seconds.mean") == pytest.approx([0.15])
    assert server.values("lat_seconds.p50") == pytest.approx([0.15])
    assert server.values("lat_seconds.p99") == pytest.approx([0.199])
    server.page(HISTOGRAM.format(900, 910, 910, 51.5))
    assert server.values("lat_seconds.rate") == [2.0, 0.0]
    assert len(server.values("lat_seconds.mean")) == 1
    server.page(HISTOGRAM.format(0, 0, 4, 40.0))  # the server began anew
    assert server.values("lat_seconds.rate")[-1] == pytest.approx(0.8)
    assert server.values("lat_seconds.mean")[-1] == 10.0
    assert server.values("lat_seconds.p99")[-1] == 0.2
    assert server.units == {f"lat_seconds.{part}": "s" for part in ("mean", "p50", "p99")} | {
        "lat_seconds.rate": "1/s"
    }


def test_a_summary_has_rate_mean_and_the_quantiles_of_the_server() -> None:
    """The quantiles of a summary become gauges as they are."""
    server = Server()
    page = '# TYPE size_bytes summary\nsize_bytes{{quantile="0.9"}} {}\nsize_bytes_count {}\nsize_bytes_sum {}\n'
    server.page(page.format("NaN", 0, 0))
    server.page(page.format(12, 10, 100))
    assert server.run.values == {
        key("size_bytes", quantile="0.9"): [12.0],
        key("size_bytes.rate"): [2.0],
        key("size_bytes.mean"): [10.0],
    }
    assert server.units["size_bytes.mean"] == "B"


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ({1.0: 0.0, math.inf: 0.0}, 0.5, math.nan),
        ({}, 0.5, math.nan),
        ({1.0: 10.0, 2.0: 20.0, math.inf: 20.0}, 0.5, 1.0),
        ({1.0: 10.0, 2.0: 20.0, math.inf: 20.0}, 0.25, 0.5),
        ({1.0: 10.0, 2.0: 20.0, math.inf: 20.0}, 0.75, 1.5),
        ({1.0: 0.0, 2.0: 0.0, math.inf: 5.0}, 0.5, 2.0),
        ({math.inf: 5.0}, 0.5, math.nan),
        ({-2.0: 4.0, 0.0: 8.0, math.inf: 8.0}, 0.75, -1.0),
        ({-2.0: 4.0, 0.0: 8.0, math.inf: 8.0}, 0.25, -2.0),
        ({1.0: 5.0, 2.0: 3.0, math.inf: 5.0}, 0.5, 0.5),
    ],
)
def test_a_quantile_lies_within_its_bucket(counts: dict[float, float], share: float, expected: float) -> None:
    """A quantile lies on a straight line between two bounds. Above all bounds, it is the largest bound."""
    found = quantile(counts, share)
    assert found == expected or (math.isnan(found) and math.isnan(expected))


@pytest.mark.parametrize(
    ("name", "types", "expected"),
    [
        ("a_total", {"a_total": "counter"}, ("a_total", "counter", "")),
        ("a_total", {"a": "counter"}, ("a_total", "counter", "")),
        ("a_total", {}, ("a_total", "counter", "")),
        ("a", {}, ("a", "", "")),
        ("a_created", {"a": "counter"}, ("a_created", "gauge", "created")),
        ("a_created", {"a_total": "counter", "a_created": "gauge"}, ("a_created", "gauge", "created")),
        ("when_created", {"when_created": "gauge"}, ("when_created", "gauge", "")),
        ("a_count", {"a": "histogram"}, ("a", "histogram", "count")),
        ("a_count", {"a_count": "gauge", "a": "histogram"}, ("a_count", "gauge", "")),
        ("a_total_bucket", {"a_total": "histogram"}, ("a_total", "histogram", "bucket")),
        ("a_other", {"a": "histogram"}, ("a_other", "", "")),
        ("a_gcount", {"a": "gaugehistogram"}, ("a", "gaugehistogram", "gcount")),
        ("a_info", {"a": "info"}, ("a_info", "info", "info")),
        ("a_info", {"a_info": "gauge"}, ("a_info", "info", "info")),
        ("a_info", {"a_info": "counter"}, ("a_info", "counter", "")),
    ],
)
def test_the_meaning_of_a_name(name: str, types: dict[str, str], expected: tuple[str, str, str]) -> None:
    """The types on the page decide the meaning of a name, in both formats."""
    assert meaning(name, types) == expected


def test_patterns_choose_metrics() -> None:
    """Patterns choose by the name of a metric or of its histogram. A pattern with `!` leaves out."""
    selection = MetricSelection("vllm:*|node_cpu*|!*_max_*")
    assert selection.wants("vllm:a_seconds", "vllm:a_seconds_count")
    assert selection.wants("node_cpu_total", "node_cpu_total")
    assert not selection.wants("vllm:a_max_b", "vllm:a_max_b_sum")
    assert not selection.wants("go_threads", "go_threads")
    assert MetricSelection(" !go_* ").wants("up", "up")
    assert not MetricSelection("!go_*").wants("go_threads", "go_threads")
    assert MetricSelection("").wants("up", "up")
    assert MetricSelection("x_count").wants("x", "x_count")


def test_too_many_series_are_left_out_and_counted() -> None:
    """Series are left out in the order of the page.

    A histogram counts as its four gauges, and an earlier series keeps its place.
    """
    server = Server(most=6)
    page = "# TYPE a gauge\n" + "".join(f'a{{n="{n}"}} {n}\n' for n in range(2)) + HISTOGRAM.format(1, 1, 1, 1)
    page += "# TYPE b gauge\nb 1\n# TYPE h histogram\n" + 'h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n'
    server.page(page)
    server.page(page)
    assert server.conversion.left_out == 2
    assert {one.name for one in server.run.definitions} == {
        "a",
        *(f"lat_seconds.{p}" for p in ("rate", "mean", "p50", "p99")),
    }


def test_churning_labels_stay_within_the_limit() -> None:
    """Series that are gone keep their place, and nothing else grows."""
    server = Server(most=50)
    for page in range(60):
        server.page("".join(f'a{{id="{page}-{at}"}} 1\nh_total{{id="{page}-{at}"}} 1\n' for at in range(50)))
    assert len(server.run.definitions) <= 75
    assert server.conversion.left_out == 100
    assert len(server.conversion._actions) <= 1_100


def test_what_cant_be_a_series_is_left_out_with_a_reason() -> None:
    """Seventeen labels are too many."""
    server = Server()
    labels = ",".join(f'l{at}="x"' for at in range(17))
    server.page(f"a{{{labels}}} 1\nb 2\n")
    assert server.run.values == {key("b"): [2.0]}
    assert "17 labels" in server.conversion.unusable


def test_the_prefix_stands_in_front_unless_the_name_has_it() -> None:
    """The prefix is not added to a name that has it, so that `as=vllm` does not double the word."""
    server = Server(prefix="vllm")
    server.page("vllm:running 1\nvllm_waiting 2\nvllmx 3\nup 4\n")
    assert {one.name for one in server.run.definitions} == {"vllm:running", "vllm_waiting", "vllm.vllmx", "vllm.up"}


def test_labels_of_the_server_are_added() -> None:
    """Labels of the server are added, and labels on the page win."""
    server = Server(instance="h:1", job="ray")
    server.page('a{job="own"} 1\n')
    assert server.run.values == {key("a", instance="h:1", job="own"): [1.0]}


def test_labels_may_be_left_out() -> None:
    """The first of the series that become the same without a label is kept, on all pages. The others are named."""
    server = Server(without="model")
    page = 'a{model="x",b="1"} 1\na{model="y",b="1"} 2\nc{model="y"} 3\n# TYPE h summary\n'
    page += 'h_count{model="x"} 10\nh_count{model="y"} 5\n'
    server.page(page)
    server.page(page.replace("10\n", "20\n").replace("5\n", "95\n"))
    assert server.run.values == {key("a", b="1"): [1.0, 1.0], key("c"): [3.0, 3.0], key("h.rate"): [2.0]}
    assert server.conversion.unusable == "'h' has several series that differ only in labels of without="


def test_labels_of_an_information_metric_are_parameters() -> None:
    """Labels of an information metric are parameters if a pattern asks for it and it has one series."""
    server = Server("vllm:*")
    server.page(VLLM + 'vllm:other_info{a="1"} 1\nvllm:other_info{a="2"} 1\n')
    assert server.run.all_params == {
        "vllm:cache_config_info.block_size": "16",
        "vllm:cache_config_info.cache_dtype": "auto",
        "vllm:cache_config_info.enable_prefix_caching": "True",
        "vllm:cache_config_info.engine": "0",
        "vllm:cache_config_info.gpu_memory_utilization": "0.9",
        "vllm:cache_config_info.num_gpu_blocks": "27411",
    }
    everything = Server()
    everything.page(VLLM)
    assert everything.run.all_params == {}


def test_a_page_of_vllm() -> None:
    """Names of vLLM keep their labels, and units come from the names. The times of creation are left out."""
    server = Server("vllm:*")
    server.page(VLLM)
    server.page(VLLM.replace("206541.0", "207041.0"))
    labels = {"engine": "0", "model_name": "meta-llama/Llama-3.1-8B-Instruct"}
    assert server.values("vllm:num_requests_running", **labels) == [31.0, 31.0]
    assert server.values("vllm:prompt_tokens_total", **labels) == [500.0]
    assert server.values("vllm:prompt_tokens_total.rate", **labels) == [100.0]
    assert server.values("vllm:time_to_first_token_seconds.rate", **labels) == [0.0]
    assert server.values("vllm:iteration_tokens_total.rate", **labels) == [0.0]
    assert not [name for name in server.units if "created" in name or "bucket" in name]
    assert server.units["vllm:prompt_tokens_total"] == "tokens"
    assert server.units["vllm:prompt_tokens_total.rate"] == "tokens/s"
    assert server.units["vllm:e2e_request_latency_seconds.p99"] == "s"
    assert server.run.refused == 0


def test_open_metrics_arrive_in_the_same_way() -> None:
    """Counters of OpenMetrics have their type at the name without `_total`."""
    server = Server()
    page = "# TYPE hits counter\n# UNIT hits bytes\nhits_total {}\nhits_created 1.7e9\n"
    page += '# TYPE s stateset\ns{{s="a"}} 1\n# EOF\n'
    server.page(page.format(5), content_type=OPEN_METRICS)
    server.page(page.format(15), content_type=OPEN_METRICS)
    assert server.run.values == {key("hits_total"): [10.0], key("hits_total.rate"): [2.0]}
    assert server.units["hits_total"] == "B"
