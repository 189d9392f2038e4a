"""A backend that does not keep the contract fails it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.backends.third_party import install, run_contract

pytestmark = pytest.mark.slow
OWN = (Path(__file__).parents[2] / "docs" / "BACKENDS.md").read_text().partition("## Write your own")[2]
FILES = dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", OWN, re.DOTALL))


@pytest.mark.parametrize(
    ("good", "bad", "test", "words"),
    [
        ("self.file.truncate(self.size)", "pass", "killed_writers", "are there twice"),
        ("self.file.flush()", "pass", "killed_writers", "step ("),
        ("csv.writer(self.file).writerows(values)", "list(values)", "all_of_a_run", "is not there"),
        ('encoding="utf-8"', 'encoding="ascii", errors="ignore"', "all_of_a_run", "is not there"),
        ("(Step,), True", "(Step,), False", "killed_writers", ""),
    ],
    ids=["repeats", "does not flush", "writes nothing", "has no unicode", "says it repeats"],
)
def test_what_is_wrong_is_found(tmp_path: Path, good: str, bad: str, test: str, words: str) -> None:
    """Each with the test that is about it; a backend that says less of itself than it keeps passes."""
    backend = FILES["csv_backend.py"].replace(good, bad, 1)
    assert backend != FILES["csv_backend.py"]
    place = install(FILES | {"csv_backend.py": backend}, tmp_path)
    code, said = run_contract(place, "test_csv.py", "-k", test)
    assert code == (1 if words else 0), said
    assert words in said
