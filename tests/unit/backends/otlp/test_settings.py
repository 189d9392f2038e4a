"""Tests of the addresses that OTLP data goes to."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.otlp.receiver import OtlpOptions, resource_of, target_of

ENV = "OTEL_EXPORTER_OTLP_"
RUN = RunFacts("r1", "job", 0, None, host="node7")


@pytest.mark.parametrize(
    ("options", "environment", "urls"),
    [
        ({}, {}, ("http://127.0.0.1:4318/v1/metrics", "http://127.0.0.1:4318/v1/traces")),
        ({"protocol": "grpc"}, {}, ("127.0.0.1:4317", "127.0.0.1:4317")),
        ({}, {"PROTOCOL": "grpc", "ENDPOINT": "http://far:1"}, ("far:1", "far:1")),
        (
            {"endpoint": "https://vm:8428/opentelemetry/"},
            {"ENDPOINT": "http://x:1", "TRACES_ENDPOINT": "http://y:2/t"},
            ("https://vm:8428/opentelemetry/v1/metrics", "https://vm:8428/opentelemetry/v1/traces"),
        ),
        (
            {},
            {"TRACES_ENDPOINT": "http://y:2/t", "PROTOCOL": "http/protobuf"},
            ("http://127.0.0.1:4318/v1/metrics", "http://y:2/t"),
        ),
    ],
)
def test_options_come_before_the_environment(
    options: dict[str, Any], environment: dict[str, str], urls: tuple[str, str]
) -> None:
    """Options come before the environment, and both before the usual ports.

    The address of one signal is taken whole.
    """
    target = target_of(OtlpOptions(**options), {ENV + key: value for key, value in environment.items()})
    assert (target.urls["metrics"], target.urls["traces"]) == urls
    assert target.secure == urls[0].startswith("https")


def test_secrets_come_from_the_environment_and_are_not_shown() -> None:
    """Secrets of the environment are in percent code, as OpenTelemetry writes them. A target does not show them."""
    target = target_of(OtlpOptions(), {ENV + "HEADERS": "api-key=a%3Db, x=y ,,"})
    assert target.headers == {"api-key": "a=b", "x": "y"}
    assert "a=b" not in repr(target)


@pytest.mark.parametrize(
    ("options", "environment", "words"),
    [
        ({"endpoint": "localhost:4318"}, {}, "is not the address of a receiver"),
        ({"endpoint": "http://"}, {}, "is not the address of a receiver"),
        ({"endpoint": "http://x:99999"}, {}, "is not the address of a receiver"),
        ({"endpoint": "http://me:secret@x:1"}, {}, "otlp: don't put a password in an address"),
        ({}, {ENV + "PROTOCOL": "http/json"}, "http/json"),
        ({}, {ENV + "HEADERS": "a=1,secret"}, "part 2 of OTEL_EXPORTER_OTLP_HEADERS"),
        ({}, {ENV + "TRACES_ENDPOINT": "https://x:1/v1"}, "the same receiver"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], environment: dict[str, str], words: str) -> None:
    """A wrong option or variable is an error without the secrets in it."""
    with pytest.raises(NotConfigured, match=words) as told:
        target_of(OtlpOptions(**options), environment)
    assert "secret" not in str(told.value)


def test_a_resource_is_the_run() -> None:
    """The resource of a run has what the environment says of it."""
    environment = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs,host.name=h,team=a%20b"}
    assert resource_of(OtlpOptions(), RUN, environment) == {
        "service.name": "theirs",
        "service.instance.id": "r1",
        "telemetry.run.id": "r1",
        "telemetry.run.name": "job",
        "host.name": "h",
        "team": "a b",
    }
    assert resource_of(OtlpOptions(service="mine"), RUN, environment)["service.name"] == "mine"
    assert resource_of(OtlpOptions(), RUN, {"OTEL_SERVICE_NAME": "named"})["service.name"] == "named"
    assert resource_of(OtlpOptions(), RUN, {})["host.name"] == "node7"
