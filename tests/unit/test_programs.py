"""The program behind interpreters and launchers, and what makes two commands the same."""

from __future__ import annotations

import shlex

import pytest

from telemetry.common.programs import command_key, program_name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python first.py", "first"),
        ("/usr/bin/python3.11 -u -X dev -W ignore ./a/first.py 1", "first"),
        ("python -Xdev a.py", "a"),
        ("python -m pkg.bench x", "bench"),
        ("python -um pkg.__main__", "pkg"),
        ("python pkg/__main__.py", "pkg"),
        ("python -c 'print(1)' first.py", "python"),
        ("python - first.py", "python"),
        ("uv run first.py --n 3", "first"),
        ("uv run --with x -p 3.11 python first.py", "first"),
        ("uv run -m pkg.bench", "bench"),
        ("uv pip install x.py", "uv"),
        ("poetry run python first.py", "first"),
        ("poetry run bench", "bench"),
        ("torchrun --standalone --nproc-per-node 2 train.py --lr 1", "train"),
        ("torchrun --nproc_per_node=2 -m pkg.train", "train"),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py", "train"),
        ("accelerate launch --num_processes 2 --multi_gpu train.py", "train"),
        ("deepspeed --num_gpus 2 train.py", "train"),
        ("sh script.sh", "script"),
        ("sh -c 'cd x && X=1 python train.py | tee log'", "train"),
        ("sh -c 'for i in 1 2; do python x.py; done'", "x"),
        ("bash -lc 'exec python -u first.py'", "first"),
        ("sh -c '\"never closed'", "sh"),
        ("sh -c 'exit 7'", "sh"),
        ("pytest tests/test_load.py::test_a -q", "test_load"),
        ("pytest -q", "pytest"),
        ("python -m pytest tests/test_load.py", "test_load"),
        ("env X=1 -u Y python first.py", "first"),
        ("timeout -k 3 5 python first.py", "first"),
        ("nice -n 5 python first.py", "first"),
        ("env X=1 timeout 5 nice python first.py", "first"),
        ("./bench-1.2", "bench-1.2"),
        ("wrk -t2 http://x/a.py", "wrk"),
        ("node app.js", "app"),
        ("env", "env"),
    ],
)
def test_a_program_is_named_behind_whatever_starts_it(line: str, name: str) -> None:
    """A program is named by the stem of its script or the last part of its module."""
    assert program_name(shlex.split(line)) == name


def test_launchers_in_launchers_end() -> None:
    """However many there are: the last one that is looked into stands for the rest."""
    assert program_name(["nice"] * 5000 + ["python", "a.py"]) == "nice"


def test_a_command_is_the_same_by_script_and_arguments() -> None:
    """Whichever interpreter runs it, and however its path is written."""
    key = command_key(["python", "bench.py", "1"], "/a")
    assert command_key(["/venv/bin/python3.11", "../a/bench.py", "1"], "/a") == key
    assert command_key(["python", "/a/bench.py", "1"], "/elsewhere") == key
    assert command_key(["python", "bench.py", "2"], "/a") != key
    assert command_key(["python", "bench.py", "1"], "/b") != key
    assert command_key(["python", "other.py", "1"], "/a") != key
    assert command_key(["python", "-m", "bench"], "/a") != command_key(["python", "-m", "bench"], "/b")
