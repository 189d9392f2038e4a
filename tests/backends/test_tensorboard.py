"""Event files, read back by TensorBoard itself: its reader, and the server that people look at."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from tests.backends import handing
from tests.backends.reading_tensorboard import accumulated, read_back, text

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def hand(to: str, folder: Path, steps: int, killed_after: int = 0) -> None:
    """Lets a process of its own write; it lives to the end, or is killed as it was told."""
    words = [sys.executable, "-m", "tests.backends.handing", to, str(folder), str(steps), str(killed_after)]
    code = subprocess.run(words, cwd=ROOT, check=False, timeout=60).returncode
    assert code == (-9 if killed_after else 0)


def check(found: Any, steps: int) -> None:
    """Every step once, with the right value at the right step; they are numbers that 32 bits hold exactly."""
    assert found.counts["step"] == steps * handing.SCALARS + 2
    assert len(found.steps) == steps + 1
    for step in range(steps):
        got = found.steps["train", step]
        wanted = {f"train/v{number}": handing.value(step, number) for number in range(handing.SCALARS)}
        assert got == wanted, step
    assert found.steps["eval", 7]["eval/λ"] == 0.5
    assert math.isnan(found.steps["eval", 7]["eval/nan"])
    assert found.counts["reading"] == handing.READINGS
    assert found.finals["latency9{route=/a}/p50"] == 12.0
    assert found.finals["latency0{route=/a}/p99.9"] == 500.0


def files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.values")}


def test_everything_is_read_back(tmp_path: Path) -> None:
    """10,000 steps of 20 scalars, 10 series and one of everything else."""
    hand("tensorboard", tmp_path, 10_000)
    found = read_back(tmp_path, str(tmp_path / "data"))
    check(found, 10_000)
    assert found.params == {"lr": "0.25", "layers": "4.0", "opt": "adam", "warm": "True", "none": "null"}
    assert {kind: found.counts[kind] for kind in ("marks", "artifact", "text", "table")} == {
        "marks": 1,
        "artifact": 1,
        "text": 1,
        "table": 1,
    }
    run = tmp_path / "data" / "bench-1"
    readings, others = accumulated(run), accumulated(run / "eval")
    one = readings.Histograms("latency3{route=/a}/histogram")[-1]
    assert (one.step, one.histogram_value.bucket_limit) == (300, [2.0, 4.0, 5.0, 9.0, 9.75])
    assert one.histogram_value.bucket == [3.0, 0.0, 4.0, 0.0, 1.0]
    assert others.Histograms("weights/histogram")[0].histogram_value.bucket == [1.0, 0.0, 5.0]
    assert others.Images("plot/image")[0].encoded_image_string == handing.PNG
    assert text(others.Tensors("sample/text")[0]) == "# Hello\n\n*there* ü"
    assert text(others.Tensors("best/table")[0]).splitlines()[2] == "| x\\|y | 1 |"


def test_a_killed_writer_leaves_no_trace(tmp_path: Path) -> None:
    """Killed in mid-run, the files are the same to the byte as those of a writer that was not."""
    hand("tensorboard:doubles=true", tmp_path / "whole", 1_500)
    hand("tensorboard:doubles=true", tmp_path / "torn", 1_500, killed_after=2)
    hand("tensorboard:doubles=true", tmp_path / "torn", 1_500)
    whole, torn = (files(tmp_path / name / "data") for name in ("whole", "torn"))
    assert whole == torn
    check(read_back(tmp_path, str(tmp_path / "torn" / "data")), 1_500)


@contextmanager
def board(logdir: Path, *words: str) -> Iterator[Callable[..., Any]]:
    """A TensorBoard server; asks it: path and parameters, or a JSON body."""
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(logdir),
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    ]
    with subprocess.Popen(
        [
            *command,
            "--samples_per_plugin",
            "scalars=100000",
            "--reload_interval",
            "1",
            *words,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            found = next(filter(None, (re.search(r"http://127.0.0.1:\d+", line) for line in server.stderr)))

            def ask(path: str, body: Any = None, **parameters: str) -> Any:
                query = f"?{urlencode(parameters)}" if parameters else ""
                data = json.dumps(body).encode() if body is not None else None
                headers = {"Content-Type": "application/json"} if data else {}
                with urlopen(Request(f"{found[0]}/data/{path}{query}", data, headers), timeout=30) as answer:
                    data = answer.read()
                    return data if answer.headers.get_content_type() == "image/png" else json.loads(data)

            yield ask
        finally:
            server.kill()


@pytest.mark.parametrize("fast", ["true", "false"])
def test_the_server_shows_it(tmp_path: Path, wait_until: Callable[..., Any], fast: str) -> None:
    """Runs, scalars, histograms, text, pictures and the comparison of settings, by the API of its web page."""
    hand("tensorboard", tmp_path, 1_500)
    with board(tmp_path / "data", "--load_fast", fast) as ask:
        wait_until(lambda: sorted(ask("runs")) == ["bench-1", "bench-1/eval", "bench-1/train"], 30.0)
        wait_until(lambda: "train/v19" in ask("plugin/scalars/tags").get("bench-1/train", {}), 30.0)
        scalars = partial(ask, "plugin/scalars/scalars")
        wait_until(lambda: scalars(run="bench-1/train", tag="train/v3")[-1][1] == 1_499, 30.0, "the last step")
        rows = scalars(run="bench-1/train", tag="train/v3")
        assert [(step, value) for _, step, value in rows] == [(n, handing.value(n, 3)) for n in range(1_500)]
        p50 = scalars(run="bench-1", tag="latency1{route=/a}/p50")
        assert [(step, value) for _, step, value in p50] == [(n * 10, 4.0) for n in range(1, 31)]
        cells = ask("plugin/histograms/histograms", run="bench-1/eval", tag="weights/histogram")
        assert cells[0][1:] == [3, [[-1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 4.0, 5.0]]]
        assert "<h1>Hello</h1>" in ask("plugin/text/text", run="bench-1/eval", tag="sample/text")[0]["text"]
        assert "<td>x|y</td>" in ask("plugin/text/text", run="bench-1/eval", tag="best/table")[0]["text"]
        picture = ask("plugin/images/images", run="bench-1/eval", tag="plot/image", sample="0")[0]
        assert picture["step"] == 3
        assert ask(f"plugin/images/individualImage?{picture['query']}") == handing.PNG
        asked = {"experimentName": "", "allowedStatuses": [], "colParams": [], "startIndex": 0, "sliceSize": 9}
        asked["allowedStatuses"] = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
        groups = ask("plugin/hparams/session_groups", asked)["sessionGroups"]
        assert [group["hparams"]["lr"] for group in groups] == [0.25]
        assert groups[0]["sessions"][0]["endTimeSecs"] == handing.STARTED_NS / 1e9 + 1000.0
