"""Real runs that record secrets everywhere: no file, frame or tracker gets one."""

from __future__ import annotations

import gzip
import json
import string
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import zmq
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.process.conftest import DEADLINE_S, Ground
from tests.process.gateways import Site
from tests.process.gateways import site as site  # noqa: PLC0414 – a fixture

from telemetry.redaction import COUNTER, COUNTER_LABEL
from telemetry.transport.client import hello

WaitUntil = Callable[..., Any]

PROGRAM: Final = """
import json, logging, os, sys, time, warnings
import telemetry

given = json.load(open(os.environ["GIVEN"]))
secrets = list(given["tokens"].values())
run = telemetry.start(f"producer {secrets[0]}")
while not os.path.exists("go"):
    time.sleep(0.01)
log = logging.getLogger("program")


def record(number, secret):
    labels = {"tenant": secret, f"k {secret}"[:64]: "v"}
    run.counter(f"calls {secret}", labels=labels).add()
    run.gauge(f"level {secret}", unit="x", labels=labels).set(1.5)
    run.series(f"time {secret}", unit="ms", labels=labels).record(2.5)
    run.expect(f"calls {secret}", 10)
    run.mark(f"mark {secret}", labels=labels)
    run.mark("x" * (4096 - len(secret) // 2) + " " + secret)
    run.params({f"param{number}": secret, f"at {secret}": 1, "nested": {f"list{number}": ["a", secret]}})
    run.log({f"loss {secret}": 0.5, "plain": 1.0}, step=number)
    run.log({"loss": 0.5}, step=number, axis=f"axis {secret}")
    run.end_step(number, axis=f"axis {secret}")
    run.axis(f"other {secret}", reductions={f"*/{secret}": "sum"}, ranked=[f"r {secret}"])
    run.text(f"text {secret}", f"before {secret} after", step=number, axis=f"axis {secret}")
    run.table(f"table {secret}", ["prompt", f"column {secret}"], [["a", secret], [secret, 1]], step=number)
    run.histogram(f"bins {secret}", [1.0, 2.0], step=number)
    run.artifact(f"file {secret}", f"https://host/{secret}/x", kind="model")
    with run.span(f"span {secret}", track=f"track {secret}", labels=labels):
        pass
    kind = run.requests(f"kind {secret} calls", labels={"tenant": secret})
    with run.tracking(f"window {secret}"):
        kind.issue(input_tokens=3).complete(finish_reason=secret)
        kind.issue(input_text=f"prompt with {secret}").complete(output_text=f"answer with {secret}")
        kind.issue().fail(f"error {secret}")
    log.warning("warned about %s", secret)


for number, secret in enumerate(secrets):
    record(number, secret)
for number, (before, secret, after) in enumerate(given["named"]):
    run.mark(f"{before}{secret}{after}")
    run.text(f"named {number}", f"{before}{secret}{after}")
    run.params({f"named{number}": f"{before}{secret}{after}", f"api_key{number}": secret})
    run.counter(f"named{number}", labels={"password": secret}).add()
    run.table(f"named {number}", ["api_key"], [[secret]])
    log.error("%s%s%s", before, secret, after)
run.finish()
raise SystemExit(3)
"""


def _random(alphabet: str, length: int) -> st.SearchStrategy[str]:
    """Return texts without any order: a short or regular one would be found in files by chance."""
    return st.integers(0, 1 << 64).map(lambda seed: "".join(Random(seed).choices(alphabet, k=length)))


_MIXED = _random(string.ascii_letters + string.digits, 50).filter(lambda text: any(map(str.isdigit, text)))
_UPPER = _random(string.ascii_uppercase + string.digits, 16)
TOKENS: Final = {
    "openai": _MIXED.map(lambda text: "sk-proj-" + text),
    "anthropic": _MIXED.map(lambda text: "sk-ant-api03-" + text),
    "github": _MIXED.map(lambda text: "ghp_" + text),
    "gitlab": _MIXED.map(lambda text: "glpat-" + text[:20]),
    "huggingface": _MIXED.map(lambda text: "hf_" + text[:34]),
    "aws": _UPPER.map(lambda text: "AKIA" + text),
    "google": _MIXED.map(lambda text: "AIza" + text[:35]),
    "slack": _MIXED.map(lambda text: "xoxb-" + text),
    "stripe": _MIXED.map(lambda text: "sk_live_" + text),
    "npm": _MIXED.map(lambda text: "npm_" + text[:36]),
    "pypi": _MIXED.map(lambda text: "pypi-AgEIcHlwaS5vcmc" + text),
    "wandb": _MIXED.map(lambda text: "wandb_v1_" + text),
    "sendgrid": _MIXED.map(lambda text: f"SG.{text[:20]}.{text}"),
    "jwt": _MIXED.map(lambda text: f"eyJ{text[:20]}.eyJ{text[20:]}.{text}"),
    "private-key": _MIXED.map(lambda text: f"-----BEGIN PRIVATE KEY-----{text}-----END PRIVATE KEY-----"),
    "email": _MIXED.map(lambda text: f"{text[:9]}.{text[9:20]}@{text[20:40]}.example"),
    "ticket": _random(string.digits, 12).map(lambda text: "TICKET-" + text),
}
_PASSWORD = _random(string.ascii_letters + string.digits + "!%+_", 16)
_AROUND = (
    ("password=", ""),
    ('{"auth_token": "', '"}'),
    ("curl --token ", " http://h"),
    ("curl -u me:", " http://h"),
    ("postgres://me:", "@db/x"),
    ("https://h/?sig=", "&y=2"),
    ("Authorization: Bearer x", ""),
)
GIVEN: Final = st.fixed_dictionaries(
    {
        "tokens": st.fixed_dictionaries(TOKENS),
        "named": st.tuples(*(_PASSWORD.map(lambda text, a=around: (a[0], text, a[1])) for around in _AROUND)),
    }
)
RULES: Final = {*TOKENS, "named", "login", "url-password"}


class Frames(threading.Thread):
    """All frames that an aggregator publishes, as bytes."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__(daemon=True)
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVTIMEO, 100)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.subscribe(b"")
        for address in addresses:
            self._socket.connect(address)
        self.seen: list[bytes] = []
        self._is_over = False
        self.start()

    def run(self) -> None:
        while not self._is_over:
            try:
                self.seen.append(self._socket.recv())
            except zmq.Again:
                continue
        self._socket.close(0)

    def end(self) -> bytes:
        self._is_over = True
        self.join()
        return b"\n".join(self.seen)


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Receive OTLP, and keep the bodies."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(gzip.decompress(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        server.server_close()


def places_with(secrets: list[str], folder: Path) -> list[str]:
    """Return the files that contain one of the secrets."""
    wanted = [secret.encode() for secret in secrets]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [f"{path} has {one!r}" for path in files for one in wanted if one in path.read_bytes()]


def wanted(given: dict[str, Any]) -> list[str]:
    """Return the secrets, and of a private key the part that no escape changes."""
    tokens = [token.split("-----")[2] if "BEGIN" in token else token for token in given["tokens"].values()]
    return [*tokens, *(secret for _, secret, _ in given["named"])]


def final(ground: Ground) -> dict[str, Any]:
    """Return the final snapshot of the latest run."""
    found: dict[str, Any] = json.loads((ground.folder / "runs" / "latest" / "final_snapshot.json").read_bytes())
    return found


def masked(snapshot: dict[str, Any]) -> set[str]:
    return {stat["labels"][COUNTER_LABEL] for stat in snapshot["counters"] if stat["name"] == COUNTER}


@pytest.mark.slow
@settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
@given(GIVEN)
def test_no_file_frame_or_tracker_has_what_a_rule_matches(wait_until: WaitUntil, given: dict[str, Any]) -> None:
    """A program records secrets of every rule in every kind of record, name and label, and on its command line."""
    secrets = wanted(given)
    ground = Ground()
    try:
        with collector() as (url, bodies):
            frames, child = _run(ground, given, url, wait_until)
            _, err = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 3, err
        published = frames.end()
        assert [secret for secret in secrets if secret.encode() in published] == []
        assert places_with(secrets, ground.folder / "runs") == []
        assert places_with(secrets, ground.folder / "out") == []
        assert b"calls ***" in published
        sent = b"".join(bodies)
        assert b"***" in sent
        assert [secret for secret in secrets if secret.encode() in sent] == []
        snapshot = final(ground)
        assert masked(snapshot) >= RULES
        assert snapshot["completeness"] == "complete"
        code, out, _ = ground.run("report", "latest")
        assert code == 0
        assert "masked: " in out
    finally:
        ground.close()


def _run(
    ground: Ground, given: dict[str, Any], url: str, wait_until: WaitUntil
) -> tuple[Frames, subprocess.Popen[str]]:
    """Begin a run with backends. The program waits until its frames are seen."""
    out = ground.folder / "out"
    out.mkdir()
    (ground.folder / "given.json").write_text(json.dumps(given))
    token, email, ticket = (given["tokens"][rule] for rule in ("github", "email", "ticket"))
    child = ground.telemetry(
        *("run", "--name", f"job {token} {ticket}", "--quiet", "--capture", "logging"),
        *("--param", f"key={token}", "--param", f"mail={email}"),
        *("--redact", "personal", "--redact-pattern", "ticket=TICKET-[0-9]{12}"),
        *("--gate", f'value("calls {token}"{{tenant={token}}}) >= 1', "--gate", f"value(calls{{to={email}}}) >= 1"),
        *(
            "--to",
            f"jsonl:path={out}/run.jsonl",
            "--to",
            f"tensorboard:logdir={out}/tb",
            "--to",
            f"otlp:endpoint={url}",
        ),
        *("--", sys.executable, ground.program("program.py", PROGRAM), token, "--password", given["named"][0][1]),
        *("-H", f"Authorization: Bearer {token}", email, "--wandb-key", given["named"][1][1]),
        environ={"GIVEN": str(ground.folder / "given.json"), "WANDB_MODE": "offline"},
    )
    manifest = ground.folder / "runs" / "latest" / "manifest.json"
    wait_until(lambda: manifest.exists() or child.poll() is not None, DEADLINE_S, "a manifest")
    assert child.poll() is None, child.communicate()
    welcome = hello(json.loads(manifest.read_bytes())["endpoint"], DEADLINE_S)
    frames = Frames([welcome.snapshots, welcome.records])
    wait_until(lambda: frames.seen, DEADLINE_S, "a frame")
    (ground.folder / "go").touch()
    return frames, child


GATEWAY_SECRET: Final = "ghp_" + "a1B2" * 9


def test_what_comes_over_http_is_masked(site: Site) -> None:
    """Events and OTLP pass the same masking, and an error tells nothing to the run."""
    site.begin()
    gateway = site.gateway()
    answer = gateway.post(
        {"type": "count", "name": f"n {GATEWAY_SECRET}", "value": 1, "labels": {"key": GATEWAY_SECRET}},
        {"type": "mark", "text": f"m {GATEWAY_SECRET}"},
    )
    assert answer.status_code == 200, answer.text
    assert gateway.post({"type": "mark", "text": 5, "labels": {"x": GATEWAY_SECRET}}).status_code == 422
    attributes = [{"key": "model", "value": {"stringValue": GATEWAY_SECRET}}]
    point = {"asDouble": 1.5, "timeUnixNano": "1", "attributes": attributes}
    metrics = [{"name": f"g {GATEWAY_SECRET}", "gauge": {"dataPoints": [point]}}]
    body = {"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}]}
    answer = gateway.client.post("/v1/metrics", json=body)
    assert answer.status_code == 200, answer.text
    site.stop()
    assert places_with([GATEWAY_SECRET], site.folder / "runs") == []


def test_a_child_process_masks_by_the_same_rules(ground: Ground) -> None:
    """A program that starts its own run gives its rules to the processes that it starts."""
    child = "import telemetry; telemetry.mark('TICKET-1234 of ann@mail.example')"
    text = f"""
import subprocess, sys, telemetry
with telemetry.start("own", redact_personal=True, redact_patterns=["ticket=TICKET-[0-9]{{4}}"]) as run:
    run.mark("TICKET-1234 of ann@mail.example")
    subprocess.run([sys.executable, "-c", {child!r}], check=True)
"""
    program = ground.popen(sys.executable, ground.program("own.py", text))
    _, err = program.communicate(timeout=DEADLINE_S)
    assert program.returncode == 0, err
    assert places_with(["TICKET-1234", "ann@mail.example"], ground.folder / "runs") == []
    marks = final(ground)["marks"]
    assert [mark["text"] for mark in marks] == ["*** of ***"] * 2


def test_a_process_that_recorded_already_gets_the_rules_of_start(ground: Ground) -> None:
    """The rules of `start` hold from then on in a process that recorded already.

    At the end of the process's own run the environment is as before.
    """
    text = """
import telemetry
telemetry.mark("early")
run = telemetry.start("job", redact_personal=True, redact_patterns=["ticket=TICKET-[0-9]{4}"])
run.mark("TICKET-1234 of ann@mail.example")
run.log({"loss of ann@mail.example": 0.5}, step=1)
run.finish()
"""
    code, _, err = ground.run("run", "--quiet", "--", sys.executable, ground.program("joins.py", text))
    assert code == 0, err
    assert [mark["text"] for mark in final(ground)["marks"]] == ["early", "*** of ***"]
    assert places_with(["ann@mail.example", "TICKET-1234"], ground.folder / "runs") == []
    text = """
import os, telemetry
os.environ["TELEMETRY_REDACT__PERSONAL"] = "true"
telemetry.start("own", redact_personal=False, redact_patterns=["x=y"]).finish()
assert os.environ["TELEMETRY_REDACT__PERSONAL"] == "true"
assert "TELEMETRY_REDACT__PATTERNS" not in os.environ
"""
    program = ground.popen(sys.executable, ground.program("own.py", text))
    _, err = program.communicate(timeout=DEADLINE_S)
    assert program.returncode == 0, err


def test_settings_switch_the_rules(ground: Ground) -> None:
    """The rules are set in a file: here secrets are not redacted, but a pattern is.

    A wrong pattern stops the run before it begins.
    """
    settings_file = ground.folder / "telemetry.toml"
    settings_file.write_text('[redact]\nsecrets = false\npatterns = ["ticket=TICKET-[0-9]{4}"]\n')
    program = ground.program("p.py", f"import telemetry; telemetry.mark('TICKET-1234 {GATEWAY_SECRET}')")
    code, _, err = ground.run("run", "--quiet", "--", sys.executable, program)
    assert code == 0, err
    marks = final(ground)["marks"]
    assert [mark["text"] for mark in marks] == [f"*** {GATEWAY_SECRET}"]
    code, out, _ = ground.run("config", "show")
    assert code == 0
    assert 'patterns = ["ticket=TICKET-[0-9]{4}"]' in out
    code, _, err = ground.run("run", "--redact-pattern", "x=a*", "--", "true")
    assert code == 2
    assert "redaction pattern 'x' matches an empty text" in err
