"""The gateway on Ray Serve, as far as it needs no Ray: its options, and what it refuses."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from telemetry.client.process import ENDPOINT_VARIABLE
from telemetry.compat.relax import serve_url
from telemetry.errors import EndpointError, UsageError
from telemetry.gateway import ray_serve
from telemetry.gateway.options import TOKEN_VARIABLE, GatewayOptions
from telemetry.gateway.ray_serve import __main__ as program
from telemetry.gateway.ray_serve import cluster, deployment
from telemetry.gateway.ray_serve.deployment import Replica, ReplicaApp
from telemetry.testing.aggregator import FakeAggregator

OWN = "10.0.0.1"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test without a run, and leave no exit function."""
    for name in (ENDPOINT_VARIABLE, TOKEN_VARIABLE, deployment.ONGOING_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cluster, "_hooked", [True])


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)


class Deployed:
    """A stand-in for what `serve.deployment` returns. It keeps the options."""

    def __init__(self) -> None:
        self.chosen: dict[str, Any] = {}

    def options(self, **chosen: Any) -> Deployed:
        self.chosen = chosen
        return self

    def bind(self, endpoint: str) -> tuple[str, dict[str, Any]]:
        return endpoint, self.chosen


@pytest.fixture
def with_ray(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """`with_ray(nodes, host)` puts modules with the names that are used in the place of Ray's.

    It returns the applications that are run, by name. `host` is the one that Serve listens on.
    """

    def put(nodes: tuple[str, ...] = (OWN,), host: str = "127.0.0.1", failure: str = "") -> dict[str, Any]:
        applications: dict[str, Any] = {}

        def run(application: Any, name: str, route_prefix: str) -> None:
            if failure:
                raise RuntimeError(failure)
            applications[name] = {"route_prefix": route_prefix, "application": application}

        client = SimpleNamespace(
            http_config=SimpleNamespace(host=host, port=8123, root_path=""),
            get_serve_details=lambda: {
                "http_options": {"port": 8123},
                "proxies": {"a": {"node_ip": OWN, "status": "HEALTHY"}},
                "applications": applications,
            },
        )
        ray, serve, context = ModuleType("ray"), ModuleType("ray.serve"), ModuleType("ray.serve.context")
        ray.__dict__.update(
            is_initialized=lambda: True,
            nodes=lambda: [{"NodeManagerAddress": address, "Alive": True} for address in nodes],
            util=SimpleNamespace(get_node_ip_address=lambda: OWN),
        )
        serve.__dict__.update(
            start=lambda: None, run=run, ingress=lambda app: lambda cls: cls, deployment=lambda cls: Deployed()
        )
        context.__dict__["_get_global_client"] = lambda raise_if_no_controller_running: client
        for module in (ray, serve, context):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        return applications

    return put


@pytest.fixture
def aggregator(short_dir: Any) -> Any:
    with FakeAggregator(short_dir) as listening:
        yield listening


@pytest.fixture
def deployed(with_ray: Callable[..., dict[str, Any]], aggregator: FakeAggregator) -> Callable[..., dict[str, Any]]:
    """`deployed(**options)` deploys the gateway of a run, and returns the applications."""

    def deploy(**options: Any) -> dict[str, Any]:
        applications = with_ray()
        ray_serve.deploy(aggregator.endpoint, **options)
        return applications

    return deploy


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize(
    "call", [ray_serve.deploy, ray_serve.delete, ray_serve.MetricsService.bind, cluster.connect, cluster.join]
)
def test_without_ray_each_call_names_the_extra(call: Callable[[], object]) -> None:
    """The error says which package is missing and how to install it."""
    with pytest.raises(UsageError, match=r"needs ray, which is not installed \(pip install 'telemetryd\[ray\]'\)"):
        call()


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize("flag", [[], ["--deploy-only"], ["--stop"], ["--api-demo"]])
def test_without_ray_the_program_ends_with_a_message(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The program without Ray starts no run and prints no traceback."""
    assert program.main(flag) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: Ray Serve needs ray, which is not installed")


def test_importing_the_module_loads_no_ray() -> None:
    """A program may import it and find out at the call that Ray is missing."""
    code = "import sys, telemetry.gateway.ray_serve as r; print(sorted(set(sys.modules) & {'ray', 'starlette'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_deployment_and_its_url(with_ray: Callable[..., dict[str, Any]], aggregator: FakeAggregator) -> None:
    """The defaults of Ray Serve count for the URL, which its details leave out."""
    applications = with_ray()
    assert ray_serve.deploy(aggregator.endpoint, replicas=2) == "http://127.0.0.1:8123/metrics"
    endpoint, chosen = applications["metrics"]["application"]
    assert endpoint == aggregator.endpoint
    assert (chosen["num_replicas"], chosen["max_ongoing_requests"], chosen["name"]) == (2, 200, "MetricsService")
    with pytest.raises(EndpointError, match="no application at /other"):
        ray_serve.url("/other")


@pytest.mark.parametrize(
    ("text", "options", "limit"),
    [
        ("", {}, 200),
        ("7", {}, 7),
        ("7", {"max_ongoing_requests": 9}, 9),
        ("none", {"max_ongoing_requests": 9}, 9),
    ],
)
def test_the_limit_of_requests(
    deployed: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: dict[str, int],
    limit: int,
) -> None:
    """An argument counts before Relax's environment variable."""
    monkeypatch.setenv(deployment.ONGOING_VARIABLE, text)
    applications = deployed(**options)
    assert applications["metrics"]["application"][1]["max_ongoing_requests"] == limit


@pytest.mark.parametrize("text", ["none", "0", "-3", "2.5"])
def test_a_limit_that_is_no_number_is_refused(
    with_ray: Callable[..., dict[str, Any]],
    aggregator: FakeAggregator,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
) -> None:
    """The error names the variable, and nothing is deployed."""
    applications = with_ray()
    monkeypatch.setenv(deployment.ONGOING_VARIABLE, text)
    with pytest.raises(UsageError, match=f"{deployment.ONGOING_VARIABLE} is '{text}'"):
        ray_serve.deploy(aggregator.endpoint)
    assert not applications


def test_an_ipc_address_is_refused_on_several_machines(
    with_ray: Callable[..., dict[str, Any]], aggregator: FakeAggregator
) -> None:
    """Replicas on another machine could not reach the run, so the error names the machine and the way out."""
    applications = with_ray(nodes=(OWN, OWN, "10.0.0.2"))
    with pytest.raises(UsageError, match=r"this machine, .* also has 10\.0\.0\.2 .*telemetry serve --bind tcp"):
        ray_serve.deploy(aggregator.endpoint)
    with pytest.raises(UsageError, match="only this machine"):
        ray_serve.MetricsService.bind(endpoint=aggregator.endpoint)
    assert not applications


@pytest.mark.parametrize(
    ("endpoint", "reaches"),
    [
        ("ipc:///tmp/x/ctl", False),
        ("tcp://127.0.0.1:5000", False),
        ("tcp://localhost:5000", False),
        ("tcp://10.0.0.1:5000", True),
        ("tcp://head:5000#ann", True),
    ],
)
def test_addresses_that_reach_other_machines(
    with_ray: Callable[..., dict[str, Any]], endpoint: str, reaches: bool
) -> None:
    """Only tcp addresses that are not loopback reach other machines."""
    with_ray(nodes=(OWN, "10.0.0.2"))
    if reaches:
        cluster.check_reach(endpoint)
    else:
        with pytest.raises(UsageError):
            cluster.check_reach(endpoint)
    with_ray(nodes=(OWN, OWN))
    cluster.check_reach(endpoint)


def test_only_live_nodes_of_other_machines_count() -> None:
    """A node that is gone, and a second node of this machine, need no address."""
    nodes = [
        {"NodeManagerAddress": OWN, "Alive": True},
        {"NodeManagerAddress": "10.0.0.3", "Alive": True},
        {"NodeManagerAddress": "10.0.0.3", "Alive": True},
        {"NodeManagerAddress": "10.0.0.2", "Alive": False},
    ]
    assert cluster.other_hosts(nodes, OWN) == ["10.0.0.3"]


def test_a_service_that_others_reach_needs_a_token(
    with_ray: Callable[..., dict[str, Any]], aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token comes from the argument or the environment."""
    applications = with_ray(host="0.0.0.0")
    with pytest.raises(UsageError, match=r"other machines can reach 0\.0\.0\.0, so the gateway needs a token"):
        ray_serve.deploy(aggregator.endpoint)
    assert not applications
    assert ray_serve.deploy(aggregator.endpoint, token="0123456789abcdef") == f"http://{OWN}:8123/metrics"
    monkeypatch.setenv(TOKEN_VARIABLE, "fedcba9876543210")
    ray_serve.deploy(aggregator.endpoint, name="second")
    assert set(applications) == {"metrics", "second"}


def test_a_failure_of_ray_serve_is_one_line(
    with_ray: Callable[..., dict[str, Any]], aggregator: FakeAggregator
) -> None:
    """The reason of a traceback is its last line."""
    with_ray(failure="Traceback:\n  File x\nValueError: no room\n")
    with pytest.raises(EndpointError, match=r"could not start the gateway: ValueError: no room \(`serve status`"):
        ray_serve.deploy(aggregator.endpoint)


def test_a_replica_that_cannot_reach_the_run_says_so(short_dir: Any, aggregator: FakeAggregator) -> None:
    """Ray Serve shows the error of a replica's constructor."""
    with pytest.raises(EndpointError, match=r"no aggregator listens at .* on this node"):
        Replica(f"ipc://{short_dir}/none")
    assert Replica(aggregator.endpoint).__dict__ == {}


def test_the_application_travels_as_its_options() -> None:
    """Ray pickles it before it has joined the run."""
    app = pickle.loads(pickle.dumps(ReplicaApp(GatewayOptions(endpoint="ipc:///x", names=("*",)))))
    assert app.options == GatewayOptions(endpoint="ipc:///x", names=("*",))
    assert app.gateway is None


def test_demonstrations_find_the_service(
    with_ray: Callable[..., dict[str, Any]], aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A given URL counts first, then that of `telemetry run --gateway`, then Ray Serve."""
    parse = program._parser().parse_args
    with_ray()
    ray_serve.deploy(aggregator.endpoint)
    assert program._known_url(parse([])) == "http://127.0.0.1:8123/metrics"
    monkeypatch.setenv(serve_url.GATEWAY_VARIABLE, "http://10.1.1.1:8000/")
    assert program._known_url(parse([])) == "http://10.1.1.1:8000/metrics"
    assert program._known_url(parse(["--url", "http://there/metrics/"])) == "http://there/metrics"


def test_a_service_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Both demonstrations say which URL does not answer, and log nothing."""
    assert program.main(["--api-demo", "--url", "http://127.0.0.1:1/metrics"]) == 1
    assert "http://127.0.0.1:1/metrics/health does not answer" in capsys.readouterr().err
    assert program.main(["--demo-only", "--url", "http://127.0.0.1:1/metrics"]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("error: the service is not healthy: http://127.0.0.1:1/metrics can't be reached")
    assert not output.out
