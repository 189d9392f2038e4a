"""State of a git repository, read with the command `git`."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Final

from telemetry.compat.tracelet.core.interfaces import CollectorInterface
from telemetry.redaction import mask_secrets

_TIMEOUT_S: Final = 10.0
_SHARED: Final = ("branch", "commit_hash", "commit_datetime", "is_dirty", "remotes")
"""What an experiment records by itself. The diff, the author and the message stay out of it."""


class GitCollector(CollectorInterface):
    """A reader of branch, commit, changes and remotes. A detached head has the branch `HEAD`."""

    def __init__(self, repo_path: str | None = None) -> None:
        self.repo_path = repo_path or os.getcwd()
        self._available = False

    def initialize(self) -> None:
        """Find out whether the path is in a repository."""
        self._available = self._git("rev-parse", "--is-inside-work-tree") == "true"

    def collect(self) -> dict[str, Any]:
        """Return the state of the repository."""
        head = self._git("log", "-1", "--format=%H%x00%B%x00%an <%ae>%x00%cI") if self._available else None
        if head is None:
            why = "the repository has no commit" if self._available else "not a git repository"
            return {"git_available": self._available, "error": why}
        commit, message, author, date = head.split("\0")
        remotes: dict[str, list[str]] = {}
        for line in (self._git("remote", "-v") or "").splitlines():
            name, url, *_ = line.split()
            remotes[name] = sorted({*remotes.get(name, []), *mask_secrets([url])})
        return {
            "git_available": True,
            "branch": self._git("rev-parse", "--abbrev-ref", "HEAD"),
            "commit_hash": commit,
            "commit_message": message.strip(),
            "commit_author": author,
            "commit_datetime": date.strip(),
            "is_dirty": bool(self._git("status", "--porcelain", "--untracked-files=no")),
            "untracked_files": (self._git("ls-files", "--others", "--exclude-standard") or "").splitlines(),
            "diff": self._git("diff") or None,
            "remotes": remotes,
        }

    def shared(self) -> dict[str, Any]:
        """Return what an experiment records by itself, as settings."""
        state = self.collect()
        chosen = {f"git.{name}": state[name] for name in _SHARED if name in state}
        return {name: _urls(value) if isinstance(value, dict) else value for name, value in chosen.items()}

    def _git(self, *words: str) -> str | None:
        """Return the output of a git command, or None if it fails."""
        try:
            done = subprocess.run(
                ["git", "-C", self.repo_path, *words],
                capture_output=True,
                check=True,
                timeout=_TIMEOUT_S,
                env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace").strip("\n")


def _urls(remotes: dict[str, list[str]]) -> str:
    return ", ".join(url for urls in remotes.values() for url in urls)
