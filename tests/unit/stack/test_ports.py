"""Ports that others hold."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.errors import EndpointError
from telemetry.stack.plan import make_plan
from telemetry.stack.ports import free_port, holder, is_taken, is_taken_by
from telemetry.stack.settings import GrafanaSettings, PrometheusSettings, StackSettings, TempoSettings


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_a_port_with_a_listener_is_taken_and_its_holder_is_known(taken: int) -> None:
    """The next free one is another."""
    assert is_taken("127.0.0.1", taken)
    assert holder(taken).endswith(f", pid {os.getpid()}")
    other = free_port("127.0.0.1", taken, ())
    assert other > taken
    assert not is_taken("127.0.0.1", other)
    assert free_port("127.0.0.1", taken, {other}) > other
    assert holder(other) == ""


def test_a_listener_belongs_to_a_session(taken: int) -> None:
    """A server may have started the process that listens. Another session is another server."""
    assert is_taken_by(os.getsid(0), taken)
    assert not is_taken_by(os.getsid(0) + 1, taken)


def test_a_plan_names_who_holds_a_port_or_takes_another(taken: int, tmp_path: Path) -> None:
    """A plan names the holder of a taken port, or takes another. No two parts get the same port."""
    program = tmp_path / "prometheus"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    settings = StackSettings(
        prometheus=PrometheusSettings(program=str(program), port=taken),
        tempo=TempoSettings(enabled=False),
        grafana=GrafanaSettings(enabled=False),
    )
    with pytest.raises(EndpointError, match=rf"port {taken} of Prometheus .*pid {os.getpid()}.*--auto-port"):
        make_plan(tmp_path, settings, only="native")
    plan = make_plan(tmp_path, settings, only="native", auto_port=True)
    port = plan.layout.settings.prometheus.port
    assert port != taken
    assert plan.parts[0].ports == {"port": port}
    assert f"--web.listen-address=127.0.0.1:{port}" in plan.parts[0].command
    assert len(plan.moved) == 1
    assert f"Prometheus gets {port}" in plan.moved[0]
    home = tmp_path / "grafana"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "defaults.ini").write_text("")
    both = StackSettings(
        prometheus=PrometheusSettings(program=str(program), port=port),
        tempo=TempoSettings(enabled=False),
        grafana=GrafanaSettings(program=str(program), home=str(home), port=port),
    )
    with pytest.raises(EndpointError, match="another part of the stack"):
        make_plan(tmp_path, both, only="native")


def test_an_address_of_another_machine_is_an_error(tmp_path: Path) -> None:
    """A host that belongs to another machine is an error, because no process here can listen there."""
    program = tmp_path / "prometheus"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    settings = StackSettings(
        host="192.0.2.1",
        prometheus=PrometheusSettings(program=str(program)),
        tempo=TempoSettings(enabled=False),
        grafana=GrafanaSettings(enabled=False),
    )
    with pytest.raises(EndpointError, match=r"can't listen at 192\.0\.2\.1"):
        make_plan(tmp_path, settings, only="native")
