"""Parts of the contract that need no process; tests/backends has what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.testing.backends import BackendContract, BackendEssentials, Written
from telemetry.testing.sample import NOT_FINITE, record_run
from telemetry.wire.snapshot import BackendStat


class Jsonl(BackendContract):
    def to(self, tmp_path: Path) -> str:
        return "jsonl"


def whole(contract: Jsonl, tmp_path: Path) -> Written:
    """Steps as they are there if all is well."""
    sample = contract.trial(tmp_path, steps=30).sample
    found = Written()
    for (axis, step), values in sample.steps.items():
        for name, value in values.items():
            found.value(axis, step, name, value)
    found.value(*NOT_FINITE, float("inf"))
    return found


def test_what_is_there_is_held_against_the_run(tmp_path: Path) -> None:
    """Values, steps, what is there twice, and what is not counted."""
    contract = Jsonl()
    found = whole(contract, tmp_path)
    sample = record_run(tmp_path / "again", steps=30)
    done = BackendStat(name="jsonl", state="done")
    contract._check_steps(sample, found, done)
    axis, step, name = NOT_FINITE
    found.steps[axis, step][name] = 3.0
    with pytest.raises(AssertionError, match=r"is 3\.0"):
        contract._check_steps(sample, found, done)
    found.steps[axis, step].pop(name, None)
    with pytest.raises(AssertionError, match="not counted"):
        contract._check_steps(sample, found, done)
    counted = BackendStat(name="jsonl", state="done", dropped={"not_finite": 1})
    found.counts["step"] -= 1
    contract._check_steps(sample, found, counted)
    found.counts["step"] += 2
    with pytest.raises(AssertionError, match="are there twice"):
        contract._check_steps(sample, found, counted)
    found.steps["train", 3]["train/v0"] = 7.0
    with pytest.raises(AssertionError, match=r"step \('train', 3\)"):
        contract._check_steps(sample, found, counted)


def test_what_cant_begin_has_an_option_that_is_none(tmp_path: Path) -> None:
    """Unless a subclass knows better."""
    assert Jsonl().unfit(tmp_path) == "jsonl:no_such_option=1"
    with pytest.raises(NotImplementedError):
        BackendEssentials().to(tmp_path)
