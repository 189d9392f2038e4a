"""Keys on disk: who may read them, and what is believed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from telemetry import limits
from telemetry.errors import ConfigError, KeysError, UsageError
from telemetry.transport import keys
from telemetry.transport.keys import KeyFolder

KEY = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
OTHER = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"


@pytest.fixture
def folder(short_dir: Path) -> KeyFolder:
    return KeyFolder(short_dir / "config" / "keys")


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- our own pair --------------------------------------------------------------------------------


def test_nobody_else_can_read_what_is_made(folder: KeyFolder, umask: int) -> None:
    """Files are 0600 and folders 0700 whatever the umask, and nothing unfinished stays behind."""
    folder.make_pair()
    folder.trust("bob", KEY)
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    assert {mode(path) for path in files} == {0o600}
    assert [mode(folder.path), mode(folder.trusted_path)] == [0o700, 0o700]
    assert sorted(path.name for path in files) == ["bob", "secret.key"]


def test_a_secret_is_never_open_not_even_while_it_is_written(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode is there before the content: a chmod afterwards would come too late."""
    seen: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    folder.make_pair()
    assert seen == [0o600]


def test_a_pair_is_read_as_it_was_made(folder: KeyFolder) -> None:
    """The public half follows from the secret one, so that the two can't disagree."""
    made = folder.make_pair()
    assert folder.own() == made
    assert zmq.curve_public(made.secret) == made.public
    assert made.secret.decode() not in repr(made)


def test_a_public_key_is_never_taken_for_an_option(folder: KeyFolder) -> None:
    """Z85 has a `-`, and it goes onto command lines."""
    assert all(folder.make_pair(replace=True).public[:1].isalnum() for _ in range(100))


def test_a_pair_is_not_replaced_by_accident(folder: KeyFolder) -> None:
    """A pair is replaced only on demand, as those who trust the old one would refuse the new one."""
    made = folder.make_pair()
    with pytest.raises(KeysError, match=r"already contains keys .*--force"):
        folder.make_pair()
    assert folder.own() == made
    assert folder.make_pair(replace=True) != made


def test_no_keys_say_how_they_are_made(folder: KeyFolder) -> None:
    """The folder need not be there."""
    assert not folder.has_pair
    with pytest.raises(KeysError, match=r"no keys in .*telemetry keys new"):
        folder.own()


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660])
def test_a_secret_that_others_can_read_is_refused(folder: KeyFolder, bits: int) -> None:
    """The error is the command that mends it."""
    folder.make_pair()
    folder.secret.chmod(bits)
    with pytest.raises(KeysError) as caught:
        folder.own()
    assert caught.value.hint in (f"chmod 600 {folder.secret}", f"chmod go-w {folder.secret}")


def test_a_folder_that_others_can_change_is_refused(folder: KeyFolder) -> None:
    """A folder that others can change is refused, as they could replace our secret with their own."""
    folder.make_pair()
    folder.path.chmod(0o770)
    for use in (folder.own, lambda: folder.make_pair(replace=True)):
        with pytest.raises(KeysError, match="other users can change") as caught:
            use()
        assert caught.value.hint == f"chmod go-w {folder.path}"


def test_files_of_another_user_are_refused(folder: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of another user are refused, as the owner of a file can change it at any time."""
    folder.make_pair()
    monkeypatch.setattr(os, "geteuid", lambda: folder.secret.stat().st_uid + 1)
    if folder.secret.stat().st_uid == 0:  # what belongs to root is believed
        os.chown(folder.secret, 12_345, -1)
    with pytest.raises(KeysError, match="belongs to another user"):
        folder.own()


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40, b"#" * 40, bytes(10_000)])
def test_a_file_without_a_key_says_so(folder: KeyFolder, content: bytes) -> None:
    """Truncated, foreign or endless."""
    folder.make_pair()
    folder.secret.write_bytes(content)
    with pytest.raises(KeysError, match="contains no key"):
        folder.own()


def test_a_folder_that_cannot_be_made_says_so(short_dir: Path) -> None:
    """One line, not a traceback."""
    (short_dir / "file").write_text("")
    with pytest.raises(KeysError, match="can't write"):
        KeyFolder(short_dir / "file" / "keys").make_pair()
    with pytest.raises(KeysError, match="can't read"):
        KeyFolder(short_dir / "file" / "keys").own()


# --- who is trusted ------------------------------------------------------------------------------


def test_who_is_trusted_has_a_name(folder: KeyFolder) -> None:
    """Trusting the same again changes nothing; revoking takes it back."""
    folder.trust("ann@node-1", KEY)
    folder.trust("ann@node-1", KEY)
    folder.trust("bob", OTHER)
    assert folder.trusted().keys == {"ann@node-1": KEY.encode(), "bob": OTHER.encode()}
    folder.revoke("bob")
    assert folder.trusted().keys == {"ann@node-1": KEY.encode()}
    with pytest.raises(KeysError, match="no trusted key has the name bob"):
        folder.revoke("bob")


def test_a_name_keeps_its_key(folder: KeyFolder) -> None:
    """A name keeps its key, as a second `trust` would shut somebody out without a word."""
    folder.trust("bob", KEY)
    with pytest.raises(KeysError, match="revoke bob"):
        folder.trust("bob", OTHER)
    assert folder.trusted().keys == {"bob": KEY.encode()}


def test_a_key_has_one_name(folder: KeyFolder) -> None:
    """A key has one name, as revoking one of two would leave it trusted under the other."""
    folder.trust("bob", KEY)
    with pytest.raises(KeysError, match="already trusted, under the name bob"):
        folder.trust("robert", KEY)


@pytest.mark.parametrize("name", ["", ".", "..", ".bob", "a/b", "-x", "a b", "a\n", "é", "x" * 41, "a\0"])
def test_what_is_no_name(folder: KeyFolder, name: str) -> None:
    """A name is a file in one folder."""
    for use in (lambda: folder.trust(name, KEY), lambda: folder.revoke(name)):
        with pytest.raises(UsageError, match="is not a valid name for a key"):
            use()
    with pytest.raises(KeysError, match="is not a public key or a name"):
        folder.resolve(name)


def test_a_name_is_shorter_than_a_key(folder: KeyFolder) -> None:
    """A name is shorter than a key, so that an address can hold either."""
    folder.trust("x" * 39, KEY)
    with pytest.raises(UsageError, match="at most 39"):
        folder.trust("x" * 40, OTHER)


@pytest.mark.parametrize("key", ["", KEY[:-1], KEY + "x", KEY.replace("Y", "'"), "é" * 40, "#" * 40, "0000 " * 8])
def test_what_is_no_key(folder: KeyFolder, key: str) -> None:
    """Wrong length, wrong characters, or more than 32 bits in five of them."""
    assert not keys.is_key(key)
    with pytest.raises(UsageError, match="not a public key"):
        folder.trust("bob", key)


def test_generated_keys_are_keys() -> None:
    """The check and the library agree."""
    assert all(keys.is_key(half.decode()) for _ in range(50) for half in zmq.curve_keypair())


def test_the_file_of_the_secret_is_no_public_key(folder: KeyFolder) -> None:
    """Handing it over by mistake is noticed before it is trusted."""
    folder.make_pair()
    assert not keys.is_key(folder.secret.read_text().strip())


def test_an_address_means_a_key_or_a_name(folder: KeyFolder) -> None:
    """A key needs no trust of ours: the address itself says who has to answer."""
    folder.trust("bob", KEY)
    assert folder.resolve("bob") == KEY.encode()
    assert folder.resolve(OTHER) == OTHER.encode()
    with pytest.raises(KeysError, match=r"has the name ann .*keys trust ann"):
        folder.resolve("ann")


def test_files_that_are_not_believed_are_named_and_cost_nobody_else(folder: KeyFolder) -> None:
    """Garbage, folders, pipes and files that others can change; hidden files are nobody's business."""
    folder.trust("bob", KEY)
    (folder.trusted_path / "garbage").write_text("hello")
    (folder.trusted_path / "folder").mkdir()
    (folder.trusted_path / "open").write_text(OTHER)
    (folder.trusted_path / "open").chmod(0o666)
    os.mkfifo(folder.trusted_path / "pipe", 0o600)
    (folder.trusted_path / ".hidden").write_text(OTHER)
    found = folder.trusted()
    assert found.keys == {"bob": KEY.encode()}
    names = ("folder", "garbage", "open", "pipe")
    assert [name for name in names if any(f"{folder.trusted_path / name}" in said for said in found.problems)] == [
        *names
    ]
    assert len(found.problems) == 4


def test_a_folder_to_which_others_can_add_is_not_believed(folder: KeyFolder) -> None:
    """A folder of trusted keys that others can add to is refused, as they would let themselves in."""
    folder.trust("bob", KEY)
    folder.trusted_path.chmod(0o777)
    for use in (folder.trusted, lambda: folder.resolve("bob")):
        with pytest.raises(KeysError, match="other users can change"):
            use()


def test_there_is_a_bound(folder: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is read again and again."""
    monkeypatch.setattr(limits, "TRUSTED_KEYS", 2)
    for name in ("a", "b", "c"):
        folder.trust(name, zmq.curve_keypair()[0].decode())
    assert list(folder.trusted().keys) == ["a", "b"]
    assert "more than 2 keys" in folder.trusted().problems[0]


def test_every_change_can_be_seen(folder: KeyFolder) -> None:
    """An aggregator compares states, and reads the keys again when they differ."""
    states = [folder.state()]

    def changed() -> bool:
        states.append(folder.state())
        return states[-1] not in states[:-1]

    folder.make_pair()
    folder.trust("bob", KEY)
    assert changed()
    (folder.trusted_path / "bob").write_text(OTHER)
    assert changed()
    (folder.trusted_path / "bob").chmod(0o666)
    assert changed()
    folder.make_pair(replace=True)
    assert changed()
    folder.revoke("bob")
    assert changed()
    assert not changed()


# --- where they are ------------------------------------------------------------------------------


def test_keys_lie_beside_the_settings_or_where_these_say(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys lie beside the settings or where these say, and looking for them makes no file."""
    monkeypatch.chdir(short_dir)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(short_dir))
    monkeypatch.delenv("TELEMETRY_SECURITY__KEYS_DIR", raising=False)
    assert keys.of_user().path == short_dir / "telemetry" / "keys"
    (short_dir / "telemetry.toml").write_text("[security]\nkeys_dir = 'mine'")
    assert keys.of_user().path == short_dir / "mine"
    monkeypatch.setenv("HOME", str(short_dir))
    assert keys.of_user("~/k").path == short_dir / "k"
    assert [path.name for path in short_dir.iterdir()] == ["telemetry.toml"]
    (short_dir / "telemetry.toml").write_text("[security]\nkey_dir = 'mine'")
    with pytest.raises(ConfigError, match=r"did you mean security\.keys_dir"):
        keys.of_user()


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home, as in a container, reads in the error which variable to set."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KeysError, match="TELEMETRY_SECURITY__KEYS_DIR"):
        keys.of_user("")
