"""Collector `git`: commit, branch and changed files of the command's working directory, once, as parameters.

It calls the program `git`. Untracked files are not counted: finding them takes seconds in a large repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Meta, Struct

from telemetry import limits
from telemetry.collectors.collector import ONCE_S, NotAvailable, Target
from telemetry.common.formatting import printable
from telemetry.errors import TelemetryError
from telemetry.redaction import mask_text
from telemetry.store.atomic import OWNER_ONLY, write_atomic

if TYPE_CHECKING:
    from telemetry.client.run import Run

DIFF: Final = "git.diff"
_HEAD: Final = "# branch."
_ENTRIES: Final = ("1 ", "2 ", "u ")
"""Beginnings of lines for changed, renamed and unmerged files in `git status --porcelain=v2`."""


class GitError(TelemetryError):
    """The program `git` failed."""


class RefusedError(GitError):
    """The program `git` ran, and ended with an error."""


class Git:
    """The state of the repository at the start of the run."""

    interval_s = ONCE_S

    class Options(Struct, frozen=True, kw_only=True):
        """Options of the collector."""

        diff: bool = False
        """Whether the uncommitted changes are kept in the run directory, in `git.diff`."""
        path: str = ""
        """A directory in the repository. Empty: the working directory of the command."""
        timeout: Annotated[float, Meta(ge=0.1, le=60.0)] = 5.0
        """Seconds for a call of `git`."""

    def __init__(self, options: Options, target: Target) -> None:
        """Find the repository and the program. Raises NotAvailable without them, or if git refuses to read it."""
        self._options = options
        self._directory = target.directory
        self._is_done = False
        path = Path(options.path).expanduser() if options.path else target.working_directory or Path()
        self._path = path.absolute()
        if not _is_in_repository(self._path):
            raise NotAvailable(f"{self._path} is in no git repository")
        program = shutil.which("git")
        if program is None:
            raise NotAvailable("the program git is not installed", hint="install the package git")
        self._program = program
        try:
            self.call("rev-parse", "--git-dir")
        except RefusedError as error:  # it belongs to another user, or a part of it is not mounted here
            raise NotAvailable(error.message) from error
        except GitError:
            pass  # the first sample reports it, and is tried again

    def sample(self, run: Run) -> None:
        """Record the state, at the first call. Raises GitError."""
        if self._is_done:
            return
        params = self._state()
        run.params(params)
        if self._options.diff and params.get("git.changed_files") and self._directory is not None:
            path = self._directory / DIFF
            write_atomic(path, self._diff(), durable=False, mode=OWNER_ONLY)
            run.artifact(DIFF, path, kind="diff")
        self._is_done = True

    def close(self) -> None:
        """Do nothing: no program runs between two calls."""

    def _state(self) -> dict[str, str | int]:
        status = self.call("status", "--porcelain=v2", "--branch", "--untracked-files=no")
        lines = status.decode("utf-8", "replace").splitlines()
        heads = dict(line.removeprefix(_HEAD).split(" ", 1) for line in lines if line.startswith(_HEAD))
        params: dict[str, str | int] = {
            "git.commit": heads.get("oid", "").replace("(initial)", ""),
            "git.branch": heads.get("head", "").replace("(detached)", ""),
            "git.changed_files": sum(line.startswith(_ENTRIES) for line in lines),
            "git.remote": self._remote(),
        }
        return {
            name: printable(value) if isinstance(value, str) else value
            for name, value in params.items()
            if value != ""
        }

    def _remote(self) -> str:
        """Return the address of the remote `origin` without user and password; empty without one."""
        try:
            url = self.call("config", "--get", "remote.origin.url").decode("utf-8", "replace").strip()
        except GitError:  # exit code 1: there is none
            return ""
        return without_login(url)

    def _diff(self) -> bytes:
        """Return the uncommitted changes with secrets masked, up to a limit."""
        text = self.call("diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD").decode("utf-8", "replace")
        whole = text[: limits.GIT_DIFF_CHARS]
        masked = "\n".join(mask_text(line, limits.GIT_DIFF_CHARS) for line in whole.split("\n"))
        cut = f"\n… {len(text) - len(whole):,} characters more\n" if len(text) > len(whole) else ""
        return (masked + cut).encode()

    def call(self, *arguments: str) -> bytes:
        """Return the output of a git command. Raises RefusedError if it fails, GitError without an answer."""
        command = [self._program, "-C", str(self._path), "-c", "core.fsmonitor=false", *arguments]
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._options.timeout,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GitError(
                f"git {arguments[0]} takes longer than {self._options.timeout:g} s", hint="raise git:timeout="
            ) from None
        except OSError as error:
            raise GitError(f"can't start git: {error.strerror}") from error
        if ended.returncode:
            lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
            cause = printable(lines[0]) if lines else f"exit code {ended.returncode}"
            raise RefusedError(f"git {arguments[0]} failed: {cause}")
        return ended.stdout


def without_login(url: str) -> str:
    """Return an address without user and password. `git@HOST:PATH` has no password and stays as it is."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def _is_in_repository(path: Path) -> bool:
    try:
        return any((parent / ".git").exists() for parent in (path, *path.parents))
    except OSError:
        return False
