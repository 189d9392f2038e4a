"""The simulator: stories keep the promises, a seed is one story, and planted defects are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulator.mutants import MUTANTS, changed

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]
FOUND = {
    "a run is complete after a loss of power": 433,
    "a full ring that was lost shows no gap": 1_961,
}
"""Defects that stories have found in the product, with a seed of each."""


def simulate(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the simulator in a process of its own, because it replaces the clocks of its process."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulator", *words],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_stories_keep_the_promises() -> None:
    """Eighty stories end as they must. `make simulate` plays as many as there is time for."""
    ended = simulate("--seeds", "80")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "80 stories" in ended.stdout
    assert "0 failed" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_300, 150))
def test_more_stories_keep_the_promises(first: int) -> None:
    """The same, of three hundred other seeds."""
    ended = simulate("--seeds", "150", "--first", str(first))
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(("name", "seed"), FOUND.items())
def test_a_defect_that_was_found_is_gone(name: str, seed: int) -> None:
    """A seed that has found a defect finds it again if it is planted, and else keeps the promises.

    A change of the simulator makes another story of a seed. Then take one that finds the planted defect.
    """
    ended = simulate("--seed", str(seed))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert simulate("--seed", str(seed), "--plant", name).returncode == 1


def test_a_seed_is_one_story() -> None:
    """Two processes tell the same story, to the byte of its result, whatever the order of their sets is."""
    first, second = (simulate("--seeds", "40", "--digests", PYTHONHASHSEED=seed).stdout for seed in ("1", "2"))
    assert len(first.splitlines()) == 40
    assert first == second


def test_a_planted_defect_is_found_and_told() -> None:
    """A defect makes stories fail, and a simpler story fails in the same way."""
    name = "the journal lacks the last batch of a turn"
    ended = simulate("--seeds", "50", "--until-failure", "--plant", name)
    assert ended.returncode == 1
    seed = next(line for line in ended.stdout.splitlines() if line.startswith("seed ")).split()[1].rstrip(":")
    shortest = simulate("--shrink", seed, "--plant", name)
    assert shortest.returncode == 1
    assert "producers=1" in shortest.stdout
    assert f"seed {seed}: BrokenPromiseError" in shortest.stdout


@pytest.mark.parametrize("name", MUTANTS)
def test_each_defect_can_be_planted(name: str) -> None:
    """The source has the text that a defect replaces, and has another one afterwards."""
    mutant = MUTANTS[name]
    assert compile(changed(mutant), mutant.module, "exec")
    assert mutant.before != mutant.after
