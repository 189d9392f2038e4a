"""Fixtures for all tests. They return functions, so that a test names what it waits for or needs."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from telemetry.transport.keys import KeyFolder

_T = TypeVar("_T")

TOOLS = dict(line.split() for line in (Path(__file__).parent / "tools.txt").read_text().splitlines())
"""Programs some tests need, and the Debian packages they come in. The Makefile and .ci/run read the same list."""

settings.register_profile(
    "telemetry",
    deadline=None,  # a busy machine is no failure
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", parent=settings.get_profile("telemetry"), max_examples=25)
"""A quarter of the examples, new ones each time as well. For `make check`: `--hypothesis-profile=quick`."""
settings.load_profile("telemetry")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed before Hypothesis does, so that the header can name it and workers share it.

    What a shell starts behind its back, or nohup, is to ignore these signals, and so would all that the tests
    start.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    os.environ.setdefault("TELEMETRY_COLLECT__NAMES", "none")  # figures of this machine would be in every count
    os.environ["XDG_STATE_HOME"] = f"{tempfile.gettempdir()}/telemetry-tests-{os.getuid()}"  # of writers
    if config.option.hypothesis_seed is None:
        # in CI the same examples each time: a new one that fails must not stop a change that it does not concern
        seed = 0 if os.environ.get("CI") else random.SystemRandom().randrange(1 << 32)
        config.option.hypothesis_seed = str(seed)


def pytest_collection() -> None:
    """Pause garbage collection: almost all that is made here stays until the end."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the tests out of garbage collection from now on: a full one takes a fifth of a second with them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = [f"repeat property tests with: --hypothesis-seed={config.option.hypothesis_seed}"]
    missing = [package for tool, package in TOOLS.items() if _path_of(tool) is None]
    if missing:
        lines.append(
            f"missing system tools, tests that need them are skipped: apt-get install -y {' '.join(missing)}"
        )
    return lines


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A new private directory with a short path: an ipc address ends at 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="tm", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def become(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], KeyFolder]:
    """`become("ann")` makes this process the user of that name from now on: with keys of her own."""
    from telemetry.transport.keys import KeyFolder

    def change(name: str) -> KeyFolder:
        folder = KeyFolder(short_dir / name)
        monkeypatch.setenv("TELEMETRY_SECURITY__KEYS_DIR", str(folder.path))
        if not folder.has_pair:
            folder.make_pair()
        return folder

    return change


@pytest.fixture
def wait_until() -> Callable[..., object]:
    """`wait_until(condition, timeout_s=10.0, what="…")` returns the first true value or fails."""
    return _wait_until


def _wait_until(condition: Callable[[], _T], timeout_s: float = 10.0, what: str = "the condition") -> _T:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {timeout_s} s; last value {value!r}")
        time.sleep(0.005)
    return value


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer.json of a byte-level BPE, trained here: it counts any text."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    corpus = ["the quick brown fox jumps over the lazy dog", "to be or not to be, that is the question"] * 9
    trainer = BpeTrainer(vocab_size=320, show_progress=False, initial_alphabet=ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    path = tmp_path_factory.mktemp("tok") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture
def essence() -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """`essence(final)`: what a journal tells of a result, to the last bit. That is all but when, by whom and at
    what cost it was made, and who was heard of when."""
    return _essence


def _essence(final: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: final[name]
        for name in (
            *("state", "completeness", "reason", "exact", "exact_reason", "window_s", "progress", "counters"),
            *("gauges", "series", "marks", "params", "overflow"),
        )
    }
    passing = {"last_seen_ns", "lag_s", "duplicates", "status"}
    kept["accounting"] = {key: value for key, value in final["accounting"].items() if key != "duplicates"}
    kept["producers"] = [
        {key: value for key, value in producer.items() if key not in passing} for producer in final["producers"]
    ]
    return kept


@pytest.fixture(scope="session")
def compiled() -> Callable[..., Any]:
    """Return what is compiled from C.

    Without a compiler at installation the test is skipped; with CI=1 it fails.
    """
    from telemetry.aggregator.compiled import Columns

    if Columns is None:
        message = "nothing is compiled: apt-get install -y gcc python3-dev; pip install --editable ."
        if os.environ.get("CI") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return Columns


@pytest.fixture(scope="session")
def native() -> None:
    """Skip the test if the recorder is not compiled, or is turned off; with CI=1 fail."""
    from telemetry.client.native_module import RECORDER, SWITCH

    if RECORDER is None:
        message = (
            f"the recorder is not compiled, or {SWITCH}=0: apt-get install -y gcc python3-dev; make .venv/.dev"
        )
        if os.environ.get("CI") == "1" and os.environ.get(SWITCH) != "0":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def find_rows(compiled: object) -> Callable[[bytes, int], int]:
    """The search for rows that is in C."""
    from telemetry.aggregator.compiled import find_rows

    return find_rows


@pytest.fixture
def require_tool() -> Callable[[str], str]:
    """`require_tool("node")` returns the path of a program, or of a file; without it the test is skipped, or fails
    with CI=1."""
    return _require_tool


def _path_of(tool: str) -> str | None:
    return tool if os.path.isabs(tool) and os.path.exists(tool) else shutil.which(tool)


def _require_tool(name: str) -> str:
    path = _path_of(name)
    if path is None:
        message = f"{name} is not installed: apt-get install -y {TOOLS.get(name, name)}"
        if os.environ.get("CI") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path
