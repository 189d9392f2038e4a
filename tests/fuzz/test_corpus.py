"""Every input that ever reached something new is tried again, and a few fresh ones: no coverage, no atheris."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import settings
from tests.fuzz import corpus, report
from tests.fuzz.forms import noise, pick
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

FRESH = 3 * settings().max_examples
EACH = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@pytest.mark.slow
@EACH
def test_the_corpus_is_taken_or_refused(target: Target) -> None:
    """A decoder survives every input that it survived once."""
    inputs = corpus.load(target.name)
    assert inputs, f"python -m tests.fuzz.run {target.name} makes one"
    for data in inputs:
        target.run(data)


@EACH
def test_fresh_mutations_are_taken_or_refused(target: Target, request: pytest.FixtureRequest) -> None:
    """Other ones each time, by the seed in the header of the test run."""
    chance = random.Random(f"{request.config.getoption('hypothesis_seed')} {target.name}").random
    seeds = target.seeds()
    for _ in range(FRESH):
        made = target.form.mutate(chance, pick(chance, seeds), pick(chance, seeds))
        try:
            target.run(made)
        except Exception as error:
            error.add_note(f"{target.name}, input {made!r}")
            raise
    target.run(noise(chance, target.head))


@EACH
def test_memory_follows_the_size_of_the_input(target: Target) -> None:
    """The largest inputs of the corpus, and what they ask for."""
    largest = corpus.load(target.name)[-5:]
    target.run(largest[0])  # what is made once is no input's
    for data in largest:
        tracemalloc.start()
        try:
            target.run(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= target.bound(len(data)), f"{len(data)} bytes made {target.name} allocate {peak}"


def test_the_corpus_is_small() -> None:
    """The corpus lies in the tree, and every file of it belongs to a target."""
    files = sorted(corpus.FOLDER.iterdir())
    assert {path.stem for path in files} == set(TARGETS)
    assert sum(path.stat().st_size for path in files) <= 3 * 1024 * 1024


def test_the_page_has_the_figures_of_the_last_long_run() -> None:
    """The table of docs/FUZZING.md is written from results.json."""
    assert report.table(report.results()) in report.PAGE.read_text()


def test_the_long_run_was_long() -> None:
    """Ten million inputs for each decoder, at least half of them mutations of valid ones."""
    known = report.results()["targets"]
    assert known.keys() <= TARGETS.keys()
    for name, facts in known.items():
        assert facts["from_valid"] >= facts["inputs"] / 2, name
        assert facts["inputs"] >= round(10_000_000 * TARGETS[name].share), name
