"""The steps of action.yml and of the GitLab template, with a local repository and an API that is made up."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
TOKEN: Final = "t0ken"
MARK: Final = "<!-- telemetry ab: sleeping -->"
DEADLINE_S: Final = 120.0
SETTINGS: Final = {
    "AB_COMMAND": 'test -z "$AB_TOKEN" && sh job.sh',
    "AB_SETUP": "touch ready",
    "AB_ARGUMENTS": "--min-effect 3% --pairs 30",
    "AB_NAME": "sleeping",
}


class Api(ThreadingHTTPServer):
    """Comments of one pull request, as GitHub and GitLab serve them: 100 a page."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = [{"id": number, "body": str(number)} for number in range(1, 101)]
        self.comments.append({"id": 101, "body": f"> {MARK}\n> quoted"})
        self.calls: list[tuple[str, str, str]] = []
        """Method, path and token of each call."""
        self.refuses = False
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.calls if method != "GET"]


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        (page,) = parse_qs(url.query)["page"]
        self._answer(url.path, self.server.comments[100 * (int(page) - 1) : 100 * int(page)])

    def do_POST(self) -> None:
        body = self._body()
        comment = {"id": len(self.server.comments) + 1, "body": body}
        if not self.server.refuses:
            self.server.comments.append(comment)
        self._answer(self.path, comment)

    def do_PATCH(self) -> None:
        comment = self.server.comments[int(self.path.rpartition("/")[2]) - 1]
        comment["body"] = self._body()
        self._answer(self.path, comment)

    do_PUT = do_PATCH

    def _body(self) -> str:
        return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

    def _answer(self, path: str, content: object) -> None:
        token = self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"]
        self.server.calls.append((self.command, path, token))
        self.send_response(403 if self.server.refuses else 200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    server = Api()
    yield server
    server.shutdown()
    server.server_close()


def shell(ground: Any, *words: str, environ: Mapping[str, str]) -> tuple[int, str, str]:
    child = ground.popen(*words, environ=environ)
    out, err = child.communicate(timeout=DEADLINE_S)
    return child.returncode, out, err


@pytest.fixture
def commits(ground: Any) -> dict[str, str]:
    """A branch whose only commit makes the job slow, beside a newer main, which is slow too."""
    names = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def git(*words: str) -> str:
        code, out, err = shell(ground, "git", *words, environ=names)
        assert code == 0, err
        return out.strip()

    def commit(text: str) -> str:
        (ground.folder / "job.sh").write_text(f"test -f ready && sleep {text}\n")
        git("add", "job.sh")
        git("commit", "--quiet", "--message", text)
        return git("rev-parse", "HEAD")

    git("init", "--quiet", "--initial-branch", "main")
    git("config", "core.excludesFile", "/dev/null")
    base = commit("0.01")
    target = commit("0.2")
    git("switch", "--quiet", "--create", "branch", base)
    return {"base": base, "target": target, "head": commit("0.15")}


def install(path: Path) -> None:
    """Put this Python where the steps that install have theirs."""
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)


class Github:
    """The steps of action.yml, as a runner runs them."""

    def __init__(self, ground: Any, api: Api, commits: Mapping[str, str]) -> None:
        self._ground = ground
        self.steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
        self.summary = ground.folder / "step_summary"
        self.summary.write_text("of another step\n")
        ends = {"base": {"sha": commits["target"]}, "head": {"sha": commits["head"]}}
        event = {"pull_request": {"number": 7, **ends}}
        (ground.folder / "event.json").write_text(json.dumps(event))
        install(ground.folder / "temp" / "telemetry-ab" / "bin" / "python")
        self._environ = {
            "GITHUB_EVENT_PATH": str(ground.folder / "event.json"),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_API_URL": api.url,
            "GITHUB_SERVER_URL": "https://github.test",
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_RUN_ID": "33",
            "RUNNER_TEMP": str(ground.folder / "temp"),
        }
        names = {"command": "AB_COMMAND", "setup": "AB_SETUP", "arguments": "AB_ARGUMENTS", "name": "AB_NAME"}
        self._inputs = {"token": TOKEN} | {key: SETTINGS[name] for key, name in names.items()}

    def run(self, name: str, **environ: str) -> tuple[int, str, str]:
        (step,) = [step for step in self.steps if step["name"] == name]
        own = {
            key: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: self._inputs[match[1]], text)
            for key, text in step["env"].items()
        }
        words = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
        return shell(self._ground, *words, environ=self._environ | own | environ)


def test_the_action_comments_once(ground: Any, api: Api, commits: Mapping[str, str]) -> None:
    """The first job makes a comment, the next one edits it. The step fails; summary and log have the verdict."""
    github = Github(ground, api, commits)
    code, out, err = github.run("Compare")
    assert code == 99, (out, err)
    sentence = f"{commits['head'][:12]} is "
    assert out.startswith(f"::group::{sentence}")
    assert f"\n::endgroup::\n::error title=telemetry ab::{sentence}" in out
    assert f"pairs of {commits['base'][:12]} and {commits['head'][:12]}" in out
    assert "smallest difference that matters: 3 %" in out
    code, out, err = github.run("Comment")
    assert (code, out) == (0, ""), err
    assert api.writes() == [("POST", "/repos/o/r/issues/7/comments")]
    first = api.comments[-1]["body"]
    assert first.startswith(f"{MARK}\n### sleeping\n\n**{sentence}")
    assert first.endswith("[picture of the intervals](https://github.test/o/r/actions/runs/33)\n")
    assert github.summary.read_text() == f"of another step\n{first}"
    assert {path.name for path in (ground.folder / "telemetry-ab").glob("ab.*")} == {"ab.md", "ab.svg", "ab.html"}

    assert github.run("Compare", AB_ARGUMENTS="--pairs 2")[0] == 0  # can't tell
    code, out, err = github.run("Comment")
    assert (code, out) == (0, ""), err
    assert api.writes()[1:] == [("PATCH", "/repos/o/r/issues/comments/102")]
    assert len(api.comments) == 102
    assert "**can't tell: wall time " in api.comments[-1]["body"]
    assert {token for _, _, token in api.calls} == {f"Bearer {TOKEN}"}

    api.refuses = True
    code, out, err = github.run("Comment")
    assert (code, out) == (0, "")
    assert "no comment: HTTP Error 403" in err


def test_an_action_that_can_not_compare_says_why(ground: Any, api: Api, commits: Mapping[str, str]) -> None:
    """A command that fails, a commit that is not here, another event: the step fails, and there is no comment."""
    github = Github(ground, api, commits)
    (ground.folder / "telemetry-ab").mkdir()
    (ground.folder / "telemetry-ab" / "ab.md").write_text("of an earlier job")
    code, out, err = github.run("Compare", AB_SETUP="exit 4")
    assert code == 1, out
    assert "the set-up failed: exit code 4" in err
    assert "no comment: there is no result" in github.run("Comment")[2]
    code, out, err = github.run("Compare", AB_COMMAND="")
    assert (code, out) == (2, "")
    assert "there is no command to run" in err
    path = ground.folder / "event.json"
    path.write_text(path.read_text().replace(commits["target"], "0" * 40))
    code, out, err = github.run("Compare")
    assert (code, out) == (2, "")
    assert "check out all commits: fetch-depth: 0" in err
    path.write_text("{}")
    code, out, err = github.run("Compare")
    assert (code, out) == (2, "")
    assert "the event has no pull request" in err
    assert api.calls == []


def test_the_steps_run_in_their_order_and_keep_the_token_apart(
    ground: Any, api: Api, commits: Mapping[str, str]
) -> None:
    """Only the last step has the token; it and the files follow also after a verdict of worse."""
    steps = Github(ground, api, commits).steps
    assert [step["name"] for step in steps] == ["Install", "Compare", "Keep the files", "Comment"]
    assert [step["name"] for step in steps if "inputs.token" in json.dumps(step)] == ["Comment"]
    assert [step.get("if") for step in steps] == [None, None, "always()", "always()"]
    assert all("${{" not in step.get("run", "") for step in steps)


def test_the_gitlab_job_comments_once(ground: Any, api: Api, commits: Mapping[str, str]) -> None:
    """A merge request has one note, which the next job edits. The log has a section with the verdict."""
    job = yaml.safe_load((ROOT / "ci" / "gitlab-ab.yml").read_text())[".telemetry-ab"]
    install(ground.folder / "telemetry-ab" / "venv" / "bin" / "python")
    environ = {
        **job["variables"],
        **SETTINGS,
        "AB_COMMAND": "sh job.sh",
        "AB_TOKEN": TOKEN,
        "CI_MERGE_REQUEST_IID": "5",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": commits["base"],
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "",
        "CI_COMMIT_SHA": commits["head"],
        "CI_API_V4_URL": f"{api.url}/api/v4",
        "CI_PROJECT_ID": "42",
        "CI_JOB_URL": "https://gitlab.test/o/r/-/jobs/9",
    }
    for number in range(2):
        code, out, err = shell(ground, "sh", "-ec", "\n".join(job["script"]), environ=environ)
        assert code == 99, (out, err)
        assert re.match(r"\x1b\[0Ksection_start:\d+:telemetry_ab\s\x1b\[0K[0-9a-f]{12} is ", out)
        assert out.count("smallest difference that matters: 3 %") == 1
        code, out, err = shell(ground, "sh", "-ec", "\n".join(job["after_script"]), environ=environ)
        assert (code, out) == (0, ""), err
        assert len(api.comments) == 102, number
    notes = "/api/v4/projects/42/merge_requests/5/notes"
    assert api.writes() == [("POST", notes), ("PUT", f"{notes}/102")]
    link = "https://gitlab.test/o/r/-/jobs/9/artifacts/file/telemetry-ab/ab.svg"
    assert api.comments[-1]["body"].endswith(f"[picture of the intervals]({link})\n")
    assert {token for _, _, token in api.calls} == {TOKEN}
    code, out, err = shell(ground, "sh", "-ec", "\n".join(job["after_script"]), environ=environ | {"AB_TOKEN": ""})
    assert "no comment: AB_TOKEN has no token" in err
