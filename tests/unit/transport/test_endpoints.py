"""Addresses: what is planned, refused and probed."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from tests.ports import free_port

from telemetry import limits
from telemetry.errors import EndpointError
from telemetry.transport import endpoints
from telemetry.transport.endpoints import Endpoints, check_connectable, plan, refuses, runtime_directory


def test_without_an_address_a_run_gets_a_private_directory(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory of the sockets is closed to other users."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    planned = plan(None, "r1")
    folder = short_dir / "telemetry" / "r1"
    assert planned == Endpoints(*(f"ipc://{folder}/{leaf}" for leaf in ("ctl", "ev", "sn", "rec")))
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_siblings_of_a_given_address() -> None:
    """Ipc paths get suffixes, tcp addresses free ports on the same host."""
    assert plan("ipc:///run/x", "r") == Endpoints(
        "ipc:///run/x", "ipc:///run/x.ev", "ipc:///run/x.sn", "ipc:///run/x.rec"
    )
    assert plan("tcp://127.0.0.1:5000", "r") == Endpoints("tcp://127.0.0.1:5000", *["tcp://127.0.0.1:*"] * 3)


@pytest.mark.parametrize(
    "address",
    ["ipc://", "5000", "udp://h:1", "tcp://h", "tcp://:5", "tcp://h:x", f"tcp://h:{'9' * 5_000}"],
    ids=lambda address: address[:12],
)
def test_what_is_no_address_says_so(address: str) -> None:
    """The error shows how one is written."""
    with pytest.raises(EndpointError, match="tcp://HOST:PORT"):
        plan(address, "r")


def test_the_runtime_directory_without_a_session(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary directory takes the place of XDG_RUNTIME_DIR, with the user in the name."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(short_dir))
    path = runtime_directory()
    assert path.parent == short_dir
    path.chmod(0o755)
    assert stat.S_IMODE(runtime_directory().stat().st_mode) == 0o700


def test_a_runtime_directory_that_is_no_directory_of_ours_is_refused(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link could lead anywhere."""
    (short_dir / "elsewhere").mkdir()
    (short_dir / "telemetry").symlink_to(short_dir / "elsewhere")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    with pytest.raises(EndpointError, match="belongs to another user"):
        runtime_directory()


def test_a_runtime_directory_that_cannot_be_made(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says which and what to do."""
    (short_dir / "file").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir / "file"))
    with pytest.raises(EndpointError, match="set XDG_RUNTIME_DIR"):
        runtime_directory()


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tcp://127.8.9.1:*", True),
        ("tcp://[::1]:1", True),
        ("tcp://localhost:1", True),
        ("tcp://*:1", False),
        ("tcp://0.0.0.0:1", False),
        ("tcp://10.0.0.1:1", False),
        ("tcp://eth0:1", False),
    ],
)
def test_what_only_this_machine_reaches(address: str, loopback: bool) -> None:
    """Everything else needs `--insecure`."""
    assert endpoints.is_loopback(address) is loopback
    if loopback:
        endpoints.check_bindable(address, insecure=False)
    else:
        endpoints.check_bindable(address, insecure=True)
        with pytest.raises(EndpointError, match="insecure"):
            endpoints.check_bindable(address, insecure=False)


@pytest.mark.parametrize(
    ("endpoint", "bound", "leads"),
    [
        ("ipc:///run/job/ctl", "ipc:///run/job/ctl", True),
        ("ipc:///run/job/ctl", "ipc:///run/other/ctl", False),
        ("ipc://job/ctl", "ipc://job/ctl", False),  # relative to two directories
        ("ipc://@job", "ipc://@job", True),
        ("ipc:///run/job/ctl", "tcp://127.0.0.1:5", False),
        ("tcp://127.0.0.1:5", "tcp://127.0.0.1:5", True),
        ("tcp://127.0.0.1:5", "tcp://127.0.0.1:6", False),
        ("tcp://127.0.0.2:5", "tcp://127.0.0.1:5", False),
        ("tcp://localhost:5", "tcp://127.0.0.1:5", True),
        ("tcp://localhost:5", "tcp://[::1]:5", False),
        ("tcp://localhost:5", "tcp://0.0.0.0:5", True),
        ("tcp://[::1]:5", "tcp://0.0.0.0:5", False),
        ("tcp://[::1]:5", "tcp://[::]:5", True),
        ("tcp://127.0.0.1:5", "tcp://[::]:5", True),
        ("tcp://127.0.0.1:5#key", "tcp://127.0.0.1:5#key", True),
        ("tcp://127.0.0.1:5#name", "tcp://127.0.0.1:5#key", False),
        ("tcp://127.0.0.1:5", "tcp://127.0.0.1:5#key", False),
        ("tcp://nonsense", "tcp://127.0.0.1:5", False),
        ("", "tcp://127.0.0.1:5", False),
    ],
)
def test_an_address_leads_to_a_bound_one(endpoint: str, bound: str, leads: bool) -> None:
    """An address does not lead to a bound one if that is in doubt."""
    assert endpoints.leads_to(endpoint, bound) is leads


def test_a_path_that_is_too_long_is_named_before_binding() -> None:
    """ZeroMQ would truncate or fail with less."""
    endpoints.check_bindable("ipc://" + "x" * 107, insecure=False)
    with pytest.raises(EndpointError, match="107 bytes"):
        endpoints.check_bindable("ipc://" + "x" * 108, insecure=False)


def test_an_abstract_name_is_open_to_every_user() -> None:
    """An abstract name has to be allowed explicitly, because every user can reach it.

    Keys protect no ipc address.
    """
    for keyed in (False, True):
        with pytest.raises(EndpointError, match="every user of this machine"):
            endpoints.check_bindable("ipc://@name", insecure=False, keyed=keyed)
    endpoints.check_bindable("ipc://@name", insecure=True)


def test_an_address_of_all_interfaces_is_seen_on_controls_host() -> None:
    """The aggregator does not know under which of its names a peer reaches it."""
    assert endpoints.seen_from("tcp://0.0.0.0:7", "tcp://node3:5") == "tcp://node3:7"
    assert endpoints.seen_from("tcp://[::]:7", "tcp://[fd00::1]:5") == "tcp://[fd00::1]:7"
    assert endpoints.seen_from("tcp://10.0.0.2:7", "tcp://node3:5") == "tcp://10.0.0.2:7"
    assert endpoints.seen_from("ipc:///a", "tcp://node3:5") == "ipc:///a"


def test_a_dead_address_refuses_and_a_stopped_process_does_not(short_dir: Path) -> None:
    """A listener that accepts nothing is alive as far as anybody can tell."""
    path = short_dir / "s"
    assert refuses(f"ipc://{path}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        for _ in range(5):
            assert not refuses(f"ipc://{path}")
    assert refuses(f"ipc://{path}")
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not refuses(f"tcp://127.0.0.1:{port}")
    assert refuses(f"tcp://127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["ipc://@abstract", "tcp://no.such.host.invalid:1", "tcp://127.0.0.1:*"])
def test_an_address_that_cannot_be_judged_gets_the_benefit_of_the_doubt(address: str) -> None:
    """Only a clear refusal counts as one."""
    assert not refuses(address)


def test_a_port_that_does_not_exist_is_refused() -> None:
    """ZeroMQ would take it modulo 65,536."""
    with pytest.raises(EndpointError):
        plan("tcp://127.0.0.1:70000", "run")


KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf#"


def test_a_tcp_address_may_name_who_has_to_answer() -> None:
    """A key in Z85 may hold any of the marks of an address; a file's name is taken as it is."""
    assert endpoints.split_key(f"tcp://[::1]:5#{KEY}") == ("tcp://[::1]:5", KEY)
    assert endpoints.split_key("tcp://node:5#bob") == ("tcp://node:5", "bob")
    assert endpoints.split_key("tcp://node:5") == ("tcp://node:5", "")
    assert endpoints.split_key("ipc:///run/a#b") == ("ipc:///run/a#b", "")
    assert endpoints.with_key("tcp://node:5", KEY) == f"tcp://node:5#{KEY}"
    assert endpoints.with_key("tcp://node:5", "") == "tcp://node:5"
    assert endpoints.with_key("ipc:///run/x", KEY) == "ipc:///run/x"


def test_the_key_of_control_holds_for_its_siblings() -> None:
    """The key of the control address holds for its siblings.

    An aggregator can't lead a peer to an address without it or with another key.
    """
    control = f"tcp://node3:5#{KEY}"
    assert endpoints.seen_from("tcp://0.0.0.0:7", control) == f"tcp://node3:7#{KEY}"
    assert endpoints.seen_from("tcp://10.0.0.2:7", control) == f"tcp://10.0.0.2:7#{KEY}"
    assert endpoints.seen_from("tcp://10.0.0.2:7#evil", control) == f"tcp://10.0.0.2:7#{KEY}"
    assert endpoints.seen_from("tcp://10.0.0.2:7#evil", "tcp://node3:5") == "tcp://10.0.0.2:7"


def test_an_address_with_a_key_is_judged_without_it() -> None:
    """The key has no effect on whether an address is loopback or refuses connections."""
    assert endpoints.is_loopback(f"tcp://127.0.0.1:5#{KEY}")
    assert not endpoints.is_loopback(f"tcp://10.0.0.1:5#{KEY}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}#{KEY}"
        assert not refuses(address)
    assert refuses(address)


@pytest.mark.parametrize(
    "address", ["tcp://h:1", "tcp://[::1]:65535", "ipc://x", "ipc://@x", f"tcp://h_-.x:5#{KEY}"]
)
def test_somebody_may_listen_there(address: str) -> None:
    """The check accepts a well-formed address without asking whether anyone listens there."""
    check_connectable(address)


@pytest.mark.parametrize(
    "address",
    [
        *("", "h:5", "udp://h:5", "tcp://", "tcp://h", "tcp://h:", "tcp://:5", "tcp://h:0", "tcp://h:65536"),
        *(
            "tcp://h:*",
            "tcp://*:5",
            "tcp://h:\u0665",
            "tcp://h\u00e9:5",
            "tcp://a b:5",
            "tcp://a/b:5",
            "tcp://h:5/x",
        ),
        *("ipc://", "ipc://@", f"ipc:///{'x' * limits.IPC_PATH_BYTES}"),
    ],
)
def test_nobody_can_listen_there(address: str) -> None:
    """Known without asking: libzmq takes some of these and then is silent for ever."""
    with pytest.raises(EndpointError):
        check_connectable(address)


def test_nobody_listens_on_a_key() -> None:
    """An address to listen at must have no key, because keys are for those who connect."""
    with pytest.raises(EndpointError, match="remove the key"):
        plan(f"tcp://0.0.0.0:5#{KEY}", "r")


def test_with_keys_an_address_may_be_reached_by_others() -> None:
    """An address that others reach is allowed with keys, which exist for that."""
    endpoints.check_bindable("tcp://0.0.0.0:5", insecure=False, keyed=True)
