"""`telemetry ab` for a pull request: `python -m telemetry.cli.ab.pull_request run`, then the same with `comment`.

`run` compares the pull request with the commit that it began at. `comment` writes the summary into the pull
request, always as the same comment. They are two calls so that the commands that are measured need no token.
action.yml and ci/gitlab-ab.yml call both. Settings are in the environment: in the text of a shell step they would
be code.

AB_COMMAND: shell command to run in both checkouts. AB_SETUP: as of --setup. AB_ARGUMENTS: more options of
`telemetry ab`. AB_NAME: title, for several comparisons in one pull request. AB_TOKEN: token that may comment.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import Request, urlopen

from telemetry.cli import console
from telemetry.cli.ab.checkouts import git
from telemetry.cli.main import main
from telemetry.cli.outputs import make_folder
from telemetry.errors import TelemetryError, UsageError
from telemetry.report.ab_review import Service
from telemetry.wire.exit_codes import Exit

FOLDER: Final = Path("telemetry-ab")
"""Folder of all files, in the working directory. Services keep artifacts from there only."""
SUMMARY: Final = FOLDER / "ab.md"
PICTURE: Final = "ab.svg"
_TITLE: Final = "telemetry ab"
_SHORT: Final = 12
_PAGE: Final = 100
_MOST_PAGES: Final = 30
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request of GitHub, or a merge request of GitLab."""

    service: Service
    target: str
    """Commit of the branch that it goes to."""
    head: str
    comments: str
    """Address of its comments."""
    comment: str
    """Address of any comment, without its id."""
    job: str
    """Address of the page that has the files of this job."""


def pull_request(environ: Mapping[str, str]) -> PullRequest:
    """Return the pull request that this job is for. Raises UsageError if it is for none."""
    if "GITHUB_EVENT_PATH" in environ:
        event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_bytes())
        if "pull_request" not in event:
            raise UsageError("the event has no pull request", hint="write `on: pull_request` into the workflow")
        repository = environ["GITHUB_REPOSITORY"]
        issues = f"{environ['GITHUB_API_URL']}/repos/{repository}/issues"
        return PullRequest(
            service="github",
            target=event["pull_request"]["base"]["sha"],
            head=event["pull_request"]["head"]["sha"],
            comments=f"{issues}/{event['pull_request']['number']}/comments",
            comment=f"{issues}/comments",
            job=f"{environ['GITHUB_SERVER_URL']}/{repository}/actions/runs/{environ['GITHUB_RUN_ID']}",
        )
    if "CI_MERGE_REQUEST_IID" in environ:
        project = f"{environ['CI_API_V4_URL']}/projects/{environ['CI_PROJECT_ID']}"
        notes = f"{project}/merge_requests/{environ['CI_MERGE_REQUEST_IID']}/notes"
        return PullRequest(
            service="gitlab",
            target=environ["CI_MERGE_REQUEST_DIFF_BASE_SHA"],
            head=environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environ["CI_COMMIT_SHA"],
            comments=notes,
            comment=notes,
            job=f"{environ['CI_JOB_URL']}/artifacts/file/{FOLDER / PICTURE}",
        )
    raise UsageError("this job is for no pull request", hint="run it in a pipeline of GitHub or GitLab for one")


def compare(request: PullRequest, environ: Mapping[str, str]) -> int:
    """Compare the pull request with the commit that it began at, and return the exit code of the step.

    A verdict that can't be told is a warning, and no failure of the step.
    """
    if not environ.get("AB_COMMAND"):
        raise UsageError("there is no command to run", hint="set the input `command`, on GitLab AB_COMMAND")
    try:
        base = git("merge-base", request.target, request.head)
    except TelemetryError as error:
        hint = "check out all commits: fetch-depth: 0, on GitLab GIT_DEPTH: 0"
        raise UsageError(f"the commit where {request.head[:_SHORT]} began is not here", hint=hint) from error
    make_folder(FOLDER)
    SUMMARY.unlink(missing_ok=True)
    setup = ["--setup", environ["AB_SETUP"]] if environ.get("AB_SETUP") else []
    files = ["--dir", str(FOLDER / "runs"), "--html", str(FOLDER / "ab.html"), "--summary", str(SUMMARY)]
    code = main(
        [
            *("ab", "--refs", base[:_SHORT], request.head[:_SHORT], *setup, *files, "--annotate", request.service),
            *shlex.split(environ.get("AB_ARGUMENTS", "")),
            *("--", "sh", "-c", environ["AB_COMMAND"]),
        ]
    )
    if SUMMARY.exists() and (path := environ.get("GITHUB_STEP_SUMMARY")):
        with open(path, "a", encoding="utf-8") as summary:
            summary.write(body(request, environ))
    return Exit.OK if code == Exit.INCONCLUSIVE and SUMMARY.exists() else code


def comment(request: PullRequest, environ: Mapping[str, str]) -> int:
    """Write the summary into the pull request: into the comment of an earlier job, if there is one."""
    if not SUMMARY.exists():
        console.say("no comment: there is no result")
        return Exit.OK
    token = environ.get("AB_TOKEN", "")
    if not token:
        console.say("no comment: AB_TOKEN has no token")
        return Exit.OK
    text = {"body": body(request, environ)}
    begin = text["body"].split("\n")[0]
    try:
        earlier = next((each["id"] for each in _comments(request, token) if _begins(each, begin)), None)
        if earlier is None:
            _send("POST", request.comments, request.service, token, text)
        else:
            method = "PATCH" if request.service == "github" else "PUT"
            _send(method, f"{request.comment}/{earlier}", request.service, token, text)
    except (OSError, HTTPException, ValueError) as error:  # a fork's token may not comment
        console.say(f"no comment: {error}; the token needs to be allowed to write into pull requests")
    return Exit.OK


def body(request: PullRequest, environ: Mapping[str, str]) -> str:
    """Return the text of the comment. Its first line is not shown, and tells it from other comments."""
    name = environ.get("AB_NAME") or _TITLE
    summary = SUMMARY.read_text(encoding="utf-8").replace(f"]({PICTURE})", f"]({request.job})")
    return f"<!-- telemetry ab: {quote(name)} -->\n### {name}\n\n{summary}"


def _begins(comment: Mapping[str, Any], begin: str) -> bool:
    return str(comment["body"] or "").replace("\r\n", "\n").startswith(f"{begin}\n")


def _comments(request: PullRequest, token: str) -> Iterator[Mapping[str, Any]]:
    for page in range(1, _MOST_PAGES + 1):
        address = f"{request.comments}?per_page={_PAGE}&page={page}"
        comments = _send("GET", address, request.service, token)
        yield from comments
        if len(comments) < _PAGE:
            return


def _send(method: str, address: str, service: Service, token: str, content: object = None) -> Any:
    """Send a request, and return its JSON. Raises OSError, HTTPException or ValueError."""
    secret = {"Authorization": f"Bearer {token}"} if service == "github" else {"PRIVATE-TOKEN": token}
    data = None if content is None else json.dumps(content).encode()
    headers = {**secret, "Content-Type": "application/json", "User-Agent": "telemetry-ab"}
    with urlopen(Request(address, data, headers, method=method), timeout=_TIMEOUT_S) as answer:
        return json.load(answer)


if __name__ == "__main__":
    STEPS = {"run": compare, "comment": comment}
    if len(sys.argv) != 2 or sys.argv[1] not in STEPS:
        console.say("run or comment: python -m telemetry.cli.ab.pull_request run")
        sys.exit(Exit.USAGE)
    try:
        sys.exit(STEPS[sys.argv[1]](pull_request(os.environ), os.environ))
    except TelemetryError as stop:
        console.say(str(stop))
        sys.exit(stop.exit_code)
