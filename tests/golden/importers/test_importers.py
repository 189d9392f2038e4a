"""Tests that each importer makes the expected run of its samples, and a clear error of damaged ones."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.golden.importers.summaries import EXPECTED, HERE, columns, imported, samples, summary, tools

from telemetry.cli.commands.import_ import import_file
from telemetry.compat.importers.registry import BUILT_IN, choose, load, read_results
from telemetry.compat.importers.result_file import ResultFile
from telemetry.config import load as load_config
from telemetry.errors import UsageError
from telemetry.report.other_tools import select
from telemetry.report.other_tools.http_tools import k6
from telemetry.store.run_directory import RunDirectory

SAMPLES = [(tool, sample.name) for tool in tools() for sample in samples(tool)]
VARIANTS = 300


def test_every_importer_has_samples() -> None:
    """Each built-in importer has a folder of samples."""
    assert tools() == sorted(BUILT_IN)


@pytest.mark.parametrize(("tool", "name"), SAMPLES)
def test_a_sample_becomes_the_expected_run(tool: str, name: str, tmp_path: Path) -> None:
    """A change of what an importer reads shows in the expected summary."""
    expected: dict[str, Any] = json.loads((HERE / tool / EXPECTED).read_text())[name]
    assert json.loads(json.dumps(summary(imported(HERE / tool / name, tmp_path)))) == expected


@pytest.mark.parametrize(("tool", "name"), SAMPLES)
def test_a_sample_is_recognized_by_its_content(tool: str, name: str) -> None:
    """One importer recognizes a sample: that of its tool."""
    file = ResultFile(HERE / tool / name, columns(tool))
    recognized = [other for other in BUILT_IN if load(other).recognizes(file)]
    assert recognized == [tool]


@pytest.mark.slow
@pytest.mark.parametrize("tool", tools())
def test_damaged_samples_are_read_or_refused(tool: str, tmp_path: Path) -> None:
    """A damaged file is read as far as it makes sense, or refused in one line that names it."""
    randomness, originals = random.Random(tool), samples(tool)
    errors: list[str] = []
    for number in range(VARIANTS):
        sample = originals[number % len(originals)]
        path = tmp_path / f"{number}" / sample.name
        path.parent.mkdir()
        _damage(sample, path, randomness)
        try:
            read_results(path, tool, columns(tool))
            if number % 60 == 0:  # what can be read can be played
                import_file(path, load_config({"run.dir": str(tmp_path / "runs")}).config, tool, columns(tool))
        except UsageError as error:
            errors.append(str(error))
        shutil.rmtree(path.parent)
    assert len(errors) > VARIANTS // 100
    assert not [error for error in errors if "\n" in error]
    assert not [error for error in errors if not any(sample.name in error for sample in originals)]


def _damage(sample: Path, path: Path, randomness: random.Random) -> None:
    """Write a damaged copy of a sample. Of a folder, damage one file."""
    if sample.is_dir():
        shutil.copytree(sample, path)
        victim = randomness.choice(sorted(file for file in path.rglob("*") if file.is_file()))
        victim.write_bytes(_damaged(victim.read_bytes(), randomness))
    else:
        path.write_bytes(_damaged(sample.read_bytes(), randomness))


def _damaged(data: bytes, randomness: random.Random) -> bytes:
    at = randomness.randrange(len(data))
    some = randomness.choice(
        [b"\x00", b"\xff", b"9" * 30, b"-1", b"{", b'"', b",", b"null", b"NaN", b"\n", b"1e400"]
    )
    match randomness.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + some + data[at + 1 :]
        case 2:
            return data[:at] + some + data[at:]
        case 3:
            return data[:at] + data[at + randomness.randrange(1, 200) :]
        case _:
            lines = data.splitlines(keepends=True)
            randomness.shuffle(lines)
            return b"".join(lines)


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"{}", b"[1,2]", b'{"a": 1}', b"a,b\n1,2\n", b"hello\n"])
def test_an_unknown_file_is_refused(content: bytes, tmp_path: Path) -> None:
    """A file that no importer recognizes is an error of the user."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a result file that telemetry knows"):
        choose(ResultFile(path))


def test_the_summary_of_k6_is_recomputed_from_its_samples(tmp_path: Path) -> None:
    """The figures of a summary are the same to the last digit, computed from the run of its samples."""
    run = imported(HERE / "k6" / "full.json.gz", tmp_path)
    answers = select(run, RunDirectory.open(Path(run.snapshot.directory)), needs_output=False)
    recomputed = k6(answers.answers, {})
    stated, _ = read_results(HERE / "k6" / "summary-export.json")
    by_name = {figure.name: figure.value for figure in stated.stated}
    same = [name for name in recomputed if name != "http_reqs rate"]  # it divides by the time of the whole test
    assert len(same) == 7
    assert {name: recomputed[name] for name in same} == {
        name: pytest.approx(by_name[name], rel=1e-12) for name in same
    }
