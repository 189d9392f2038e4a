"""The gateway and its OpenAPI document agree, for good data and for bad."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.process.gateways import Gateway, Site, events_of
from tests.process.gateways import site as site  # noqa: PLC0414 – a fixture

HERE = Path(__file__).parent
LIMIT_S = 600.0  # fifteen seconds on a machine that does nothing else
STREAM = "/v1/stream"


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
def test_schemathesis_finds_nothing(site: Site) -> None:
    """All checks of schemathesis pass: no server error, no undocumented answer.

    Bad data is refused and good data accepted, and what the gateway called recorded was not dropped.
    """
    site.begin()
    gateway = site.gateway()
    paths = gateway.get("/openapi.json").json()["paths"]
    operations = sum(len(methods) for methods in paths.values())
    done = subprocess.run(
        [
            *(
                str(Path(sys.executable).with_name("schemathesis")),
                "--config-file",
                str(HERE / "schemathesis.toml"),
            ),
            *("run", f"{gateway.url}/openapi.json", "--exclude-path", STREAM),
        ],
        cwd=site.folder,
        env=site.environ | {"PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "schema_hooks"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert f"Tested: {operations - 1}" in done.stdout, done.stdout
    final = site.stop()
    assert final["completeness"] == "complete"
    assert final["accounting"]["dropped"] == {}
    assert final["accounting"]["applied"] > operations
    assert gateway.end() == ""


def test_the_stream_keeps_to_the_document(site: Site) -> None:
    """The stream keeps to the document. It never ends while the run lives, so schemathesis can't ask for it."""
    site.begin()
    gateway = site.gateway()
    operation = gateway.get("/openapi.json").json()["paths"][STREAM]["get"]
    [parameter] = operation["parameters"]
    assert (parameter["name"], parameter["required"]) == ("every_s", False)
    assert list(operation["responses"]["200"]["content"]) == ["text/event-stream"]
    schema = parameter["schema"]
    for good in (schema["minimum"], schema["default"], schema["maximum"], "1e-3"):
        assert first_event(gateway, f"?every_s={good}") == "snapshot"
    assert first_event(gateway, "") == "snapshot"
    for bad in (-0.001, 3_600.5, "x", "", "nan", "inf", "-inf", "1,5", "true"):
        answer = gateway.get(f"{STREAM}?every_s={bad}")
        assert answer.status_code == 422, bad
        assert answer.json()["detail"][0]["loc"] == ["query", "every_s"]


def first_event(gateway: Gateway, query: str) -> str:
    with gateway.client.stream("GET", STREAM + query) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
        return next(events_of(answer.iter_lines()))[0]
