"""The collector `scrape` against servers that come and go."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.unit.collectors.scrape.servers import PageServer, answer, page_server, trickle

from telemetry.collectors import registry
from telemetry.collectors.collector import NotConfigured, Target
from telemetry.collectors.scrape.collector import Scrape
from telemetry.testing.collectors import MemoryRun

PAGE = "# TYPE depth gauge\ndepth 3\n"


@pytest.fixture
def server() -> Iterator[PageServer]:
    with page_server(PAGE) as made:
        yield made


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return a function that takes the warnings since its last call."""
    caplog.set_level(logging.WARNING, "telemetry.client")

    def take() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    return take


def make(text: str, **target: object) -> Scrape:
    choice = registry.parse(f"scrape:{text}")
    made = registry.make(choice, Target(collector=choice.name, **target))  # type: ignore[arg-type]
    assert isinstance(made, Scrape)
    return made


def escaped(path: Path) -> str:
    return str(path).replace(",", "\\,")


def values(run: MemoryRun, name: str) -> list[float]:
    return [value for (known, _), found in run.values.items() if known == name for value in found]


def test_a_server_that_is_away_is_up_0_and_said_once(server: PageServer, said: Callable[[], list[str]]) -> None:
    """Each time that it leaves, and when it is back."""
    run, scrape = MemoryRun(), make(f"url=127.0.0.1:{server.port},every=0.5,as=mine")
    assert scrape.interval_s == 0.5
    scrape.sample(run)
    assert said() == []
    for _ in range(2):
        server.stop()
        scrape.sample(run)
        scrape.sample(run)
        [line] = said()
        assert f"mine: {server.url}: Connection refused; it is tried again every 0.5 s" in line
        server.start()
        scrape.sample(run)
        assert said() == [f"telemetry: mine: {server.url} answers again"]
    scrape.close()
    assert values(run, "mine.up") == [1, 0, 0, 1, 0, 0, 1]
    assert values(run, "mine.depth") == [3.0, 3.0, 3.0]
    assert len(values(run, "mine.scrape_seconds")) == 3


def test_a_slow_server_costs_its_timeout(server: PageServer, said: Callable[[], list[str]]) -> None:
    """A slow server costs its timeout, and half a page records no metric."""
    server.behave = trickle
    run, scrape = MemoryRun(), make(f"url={server.url},timeout=0.2")
    scrape.sample(run)
    scrape.close()
    assert run.values == {("scrape.up", ()): [0.0]}
    assert "no answer within 0.2 s" in said()[0]


def test_an_answer_that_is_no_page_of_metrics_is_said(server: PageServer, said: Callable[[], list[str]]) -> None:
    """A page without metrics, such as the start page of a server, is reported."""
    server.page, server.content_type = "<html>\n<body>hello</body>\n</html>\n", "text/html"
    run, scrape = MemoryRun(), make(f"url={server.url}")
    scrape.sample(run)
    scrape.close()
    assert run.values == {("scrape.up", ()): [0.0]}
    assert "it answers with text/html, not with metrics (check the path of the page)" in said()[0]


def test_what_is_left_out_is_said_once(server: PageServer, said: Callable[[], list[str]]) -> None:
    """Series beyond the limit, series that can't be recorded, and lines that can't be read."""
    labels = ",".join(f'l{at}="x"' for at in range(17))
    server.page = f"a 1\nb 2\nc 3\n?!\nmany{{{labels}}} 1\n"
    run, scrape = MemoryRun(), make(f"url={server.url},series=2")
    server.page = f"many{{{labels}}} 1\na 1\nb 2\nc 3\n?!\n"
    scrape.sample(run)
    scrape.sample(run)
    scrape.close()
    lines = said()
    assert len(lines) == 3
    assert "2 series of the page are left out, because the limit of the run is 2" in lines[0]
    assert "17 labels" in lines[1]
    assert "1 line can't be read, such as '?!'" in lines[2]
    assert values(run, "scrape.up") == [1, 1]


def test_targets_come_from_a_file(server: PageServer, tmp_path: Path, said: Callable[[], list[str]]) -> None:
    """Targets come from a file as Ray writes it: with labels, and missing at first.

    The file may change while the run goes on.
    """
    path = tmp_path / "a, b.json"
    with page_server("# TYPE depth gauge\ndepth 4\n") as second:
        run, scrape = MemoryRun(), make(f"targets={escaped(path)},as=ray", labels={"node": "n0"})
        scrape.sample(run)
        scrape.sample(run)
        [line] = said()
        assert f"ray: can't read {path}: No such file or directory; it is read again" in line
        first = f"127.0.0.1:{server.port}"
        path.write_text(json.dumps([{"labels": {"job": "ray", "__x": "y"}, "targets": [first, first]}]))
        scrape.sample(run)
        mine = {"instance": first, "job": "ray", "node": "n0"}
        assert run.values["ray.depth", tuple(sorted(mine.items()))] == [3.0]
        other = f"127.0.0.1:{second.port}"
        path.write_text(
            json.dumps([{"targets": [first]}, {"targets": [other], "labels": {"__metrics_path__": "/m"}}])
        )
        scrape.sample(run)
        assert run.values["ray.depth", tuple(sorted({"instance": other, "node": "n0"}.items()))] == [4.0]
        assert second.requests[0][0] == "/m"
        second.stop()
        path.write_text("{}")
        scrape.sample(run)
        assert "is not a list of targets" in said()[-1]
        scrape.close()


def test_several_servers_are_asked_at_the_same_time(server: PageServer, tmp_path: Path) -> None:
    """Servers that hang don't add up: here two answer only when both are asked."""
    path = tmp_path / "targets.json"
    both = threading.Barrier(2, timeout=20.0)

    def behave(handler: BaseHTTPRequestHandler) -> None:
        both.wait()
        answer(handler, 200, PAGE.encode(), {})

    with page_server() as second, page_server() as third:
        second.behave = third.behave = behave
        places = [f"127.0.0.1:{one.port}" for one in (second, third, server)]
        path.write_text(json.dumps([{"targets": places}]))
        run, scrape = MemoryRun(), make(f"targets={path},timeout=30")
        scrape.sample(run)
        scrape.close()
    assert values(run, "scrape.up") == [1, 1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("every=5", "either an address or a file"),
        ("url=a,targets=b", "either an address or a file"),
        ("url=ftp://user:pw@a", "ftp://a is not an address of a page: the scheme is ftp"),
        ("url=a,every=0", "every=0"),
        ("url=a,token_env=NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE has no token"),
        ("url=a,metric=b", "no option 'metric'"),
    ],
)
def test_wrong_options_are_refused(text: str, words: str) -> None:
    """Wrong options are refused before any request is sent. A password is not repeated."""
    with pytest.raises(NotConfigured) as caught:
        make(text)
    assert words in str(caught.value)
    assert "pw" not in str(caught.value)


def test_a_token_comes_from_the_environment(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token comes from the environment, so that it stands on no command line."""
    monkeypatch.setenv("SCRAPE_TOKEN", "t0k\n")
    scrape = make(f"url={server.url},token_env=SCRAPE_TOKEN")
    scrape.sample(MemoryRun())
    scrape.close()
    assert server.requests[0][1]["Authorization"] == "Bearer t0k"
