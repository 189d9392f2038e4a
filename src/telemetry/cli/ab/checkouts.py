"""Checkouts of two commits in a temporary folder: git worktrees, which leave the user's checkout as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from telemetry.cli import console
from telemetry.common.formatting import printable
from telemetry.errors import TelemetryError, UsageError


def commit_of(ref: str) -> str:
    """Return the full hash of a commit. Raises UsageError if the repository here does not have it."""
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except TelemetryError:
        raise UsageError(f"{ref!r} is no commit of a git repository here", hint="git log --oneline --all") from None


@contextmanager
def checkouts(commits: Sequence[str], cwd: str, prepare: Callable[[str], None]) -> Iterator[list[str]]:
    """Yield the folder in each checkout that is the place of `cwd` in the repository, prepared by `prepare`.

    All checkouts are removed at the end, and no other worktree. Raises TelemetryError.
    """
    here = git("rev-parse", "--show-prefix", cwd=cwd)
    folder = Path(tempfile.mkdtemp(prefix="telemetry-ab-"))
    worktrees: list[Path] = []
    try:
        folders = []
        for number, commit in enumerate(commits):
            worktrees.append(folder / f"{'ab'[number]}-{commit[:12]}")
            git("worktree", "add", "--detach", "--force", str(worktrees[-1]), commit, cwd=cwd)
            folders.append(os.path.join(worktrees[-1], here))
            if not os.path.isdir(folders[-1]):
                raise UsageError(f"commit {commit[:12]} has no folder {here}")
            prepare(folders[-1])
        yield folders
    finally:
        _remove(folder, worktrees, cwd)


def _remove(folder: Path, worktrees: Sequence[Path], cwd: str) -> None:
    """Remove worktrees and the folder that they are in. Never raises; says if something is left."""
    with suppress(OSError):
        for path, *_ in os.walk(folder):  # such as the folders of a module cache of Go, which are read-only
            os.chmod(path, 0o700)
    for worktree in worktrees:
        with suppress(TelemetryError):  # `git worktree add` failed
            git("worktree", "remove", "--force", str(worktree), cwd=cwd)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        console.say(f"can't remove {folder}; remove it yourself")


def git(*arguments: str, cwd: str | None = None) -> str:
    """Run git, out of reach of the terminal's Ctrl-C. Return its output without its last line break.

    Raises TelemetryError.
    """
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise TelemetryError("git is not installed", hint="--refs needs it") from error
    if done.returncode:
        reason = printable(done.stderr.strip().split("\n")[-1])
        raise TelemetryError(f"git {arguments[0]} failed: {reason or f'exit code {done.returncode}'}")
    return done.stdout.removesuffix("\n")
