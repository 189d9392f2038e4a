"""Tests of the end of a process: what is called, how often, and after what."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

BEGIN = """
import os, sys
from telemetry.client.exit_hooks import ExitHooks

def note(word):
    os.write(1, f"{word}\\n".encode())

hooks = ExitHooks(lambda: note("end"), lambda error: note(repr(error)))
"""


def lines_of(program: str, code: int = 0) -> list[str]:
    """Lines that a program prints, the last ones at its exit."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout.splitlines()


def test_a_program_ends_once() -> None:
    """However often a producer attaches. multiprocessing is not loaded for it."""
    assert lines_of("""
        hooks.register()
        hooks.register()
        note("multiprocessing" in sys.modules)
    """) == ["False", "end"]


def test_an_exception_that_ends_the_program_is_heard_before_the_end() -> None:
    """Our hook runs once, before the hook that was there, which always follows. Later hooks call ours."""
    assert lines_of("""
        def theirs(kind, error, trace):
            note("theirs")

        sys.excepthook = theirs
        hooks.register()
        hooks.register()
        ours = sys.excepthook

        def later(kind, error, trace):
            note("later")
            ours(kind, error, trace)

        sys.excepthook = later
        raise ValueError("x")
    """, code=1) == ["later", "ValueError('x')", "theirs", "end"]  # fmt: skip


def test_an_exception_at_a_prompt_ends_nothing() -> None:
    """The session goes on, so it is no news."""
    assert lines_of("""
        sys.ps1 = ">>> "
        sys.excepthook = lambda kind, error, trace: note("theirs")
        hooks.register()
        raise ValueError("x")
    """, code=1) == ["theirs", "end"]  # fmt: skip


def test_without_a_producer_there_are_no_hooks() -> None:
    """A program that only imports the client ends as if it did not."""
    assert lines_of("note('done')") == ["done"]


def test_it_ends_after_children_that_nobody_joined() -> None:
    """The end comes after unjoined children.

    The exit function of multiprocessing that joins them may be due before or after ours.
    """
    for first, second in (
        ("import multiprocessing.util", "hooks.register()"),
        ("hooks.register()", "import multiprocessing.util"),
    ):
        lines = lines_of(f"""
            {first}
            {second}
            import time

            def work():
                while os.read(0, 1):
                    pass
                note("child")

            note("start")
            multiprocessing.get_context("fork").Process(target=work).start()
        """)
        assert lines[0] == "start"
        assert lines[-1] == "end"
        assert "child" in lines[1:-1]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [("import multiprocessing.util", ""), ("", "hooks.register()")],
    ids=["hooked in the parent", "hooked at its first event"],
)
def test_a_forked_child_of_multiprocessing_ends_too(earlier: str, later: str) -> None:
    """A forked child of multiprocessing skips `atexit`, and has cleared the finalizers of its parent.

    Its end runs all the same.
    """
    lines = lines_of(f"""
        {earlier}
        hooks.register()
        import multiprocessing

        def work():
            {later}
            note("child")

        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        note("joined")
    """)
    assert lines[:3] == ["child", "end", "joined"]
    assert set(lines[3:]) == {"end"}
