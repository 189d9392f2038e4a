"""Keys on disk: one pair of this user, and a folder of public keys that are trusted.

    <keys>/secret.key        the pair; the public half follows from the secret one
    <keys>/trusted/<name>    one public key each

Keys are Curve25519, written as 40 characters of Z85. Owners of trusted keys may connect to an aggregator of this
user. An address may name its aggregator by the name under which the key is trusted.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import zmq
from zmq.utils.z85 import Z85CHARS

from telemetry import limits
from telemetry.errors import KeysError, UsageError

KEY_CHARS: Final = 40
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{KEY_CHARS - 2}}}\Z")  # shorter than a key: unambiguous
_DIGITS: Final = Z85CHARS.decode()
_WARNING: Final = (
    "# secret: anyone with this line can act as you. Share what `telemetry keys show` prints instead.\n"
)
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


@dataclass(frozen=True)
class KeyPair:
    """A key pair in Z85. The secret half is never shown."""

    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Trusted:
    """The public keys of a folder. `problems` lists files that were rejected, with the reason."""

    keys: dict[str, bytes]
    problems: list[str]


@dataclass(frozen=True)
class KeyFolder:
    """A folder of keys. Reads the disk each time, so that changes apply at once. Blocks for small files only."""

    path: Path

    @property
    def secret(self) -> Path:
        return self.path / "secret.key"

    @property
    def trusted_path(self) -> Path:
        return self.path / "trusted"

    @property
    def has_pair(self) -> bool:
        """True if a pair of this user exists, valid or not."""
        return os.path.lexists(self.secret)

    def own(self) -> KeyPair:
        """Return this user's pair. Raises KeysError if there is none, or if others could read it."""
        try:
            text, facts = _read(self.secret)
        except FileNotFoundError:
            raise KeysError(f"no keys in {self.path}", hint="create them with `telemetry keys new`") from None
        except OSError as error:
            raise KeysError(f"can't read {self.secret}: {error.strerror}") from error
        _refuse_if_foreign(self.path, self.path.stat())
        _refuse_if_foreign(self.secret, facts)
        if facts.st_mode & 0o077:
            raise KeysError(f"other users can read {self.secret}", hint=f"chmod 600 {self.secret}")
        secret = text.removeprefix(_WARNING).strip()
        if not is_key(secret):
            raise KeysError(f"{self.secret} contains no key", hint="`telemetry keys new --force` creates a new one")
        return KeyPair(zmq.curve_public(secret.encode()), secret.encode())

    def make_pair(self, *, replace: bool = False) -> KeyPair:
        """Create a pair, readable by this user alone from the start. Raises KeysError if there is one already."""
        public, secret = zmq.curve_keypair()
        while not public[:1].isalnum():  # so that no program takes it for an option
            public, secret = zmq.curve_keypair()
        pair = KeyPair(public, secret)
        self._put(pair, replace=replace)
        return pair

    def put_pair(self, pair: KeyPair) -> None:
        """Replace the pair by one that was made elsewhere. Raises KeysError."""
        self._put(pair, replace=True)

    def _put(self, pair: KeyPair, *, replace: bool) -> None:
        try:
            self.path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            _refuse_if_foreign(self.path, self.path.stat())
            _write_private(self.secret, f"{_WARNING}{pair.secret.decode()}\n", replace=replace)
        except FileExistsError:
            raise KeysError(
                f"{self.path} already contains keys",
                hint="--force replaces them; everyone who trusts the old key needs the new one",
            ) from None
        except OSError as error:
            raise KeysError(f"can't write {self.secret}: {error.strerror}") from error

    # --- who is trusted --------------------------------------------------------------------------

    def trusted(self) -> Trusted:
        """Return all trusted public keys, by name.

        Raises KeysError if others could have added a key. Raises OSError if the disk does not respond, which is no
        reason to distrust a key.
        """
        keys: dict[str, bytes] = {}
        problems: list[str] = []
        names = list(self._names())
        if len(names) > limits.TRUSTED_KEYS:
            problems.append(f"{self.trusted_path} has more than {limits.TRUSTED_KEYS:,} keys: the rest is ignored")
        for name in names[: limits.TRUSTED_KEYS]:
            path = self.trusted_path / name
            try:
                keys[name] = _public_key(path)
            except FileNotFoundError:
                continue  # revoked meanwhile
            except KeysError as error:
                problems.append(str(error))
            except (PermissionError, IsADirectoryError) as error:
                problems.append(f"can't read {path}: {error.strerror}")
        return Trusted(keys, problems)

    def state(self) -> tuple[object, ...]:
        """Return a value that changes with the pair or a trusted key. Raises OSError as `trusted` does."""
        with suppress(FileNotFoundError):
            key_files = [(entry.name, _identity(entry.stat())) for entry in os.scandir(self.trusted_path)]
            own = _identity(self.secret.stat()) if self.has_pair else ()
            return (_identity(self.trusted_path.stat()), own, *sorted(key_files))
        return ()

    def trust(self, name: str, key: str) -> None:
        """Trust a key under a name.

        Raises UsageError for an invalid name or key, KeysError if either is used already.
        """
        check_name(name)
        if not is_key(key):
            raise UsageError(
                "that is not a public key", hint=f"a key has {KEY_CHARS} characters; put quotes around it: '…'"
            )
        trusted_keys = self.trusted().keys
        other = next((known_as for known_as, held in trusted_keys.items() if held == key.encode()), name)
        if trusted_keys.get(name) == key.encode():
            return
        if other != name:
            raise KeysError(f"this key is already trusted, under the name {other}")
        try:
            self.trusted_path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            _write_private(self.trusted_path / name, f"{key}\n", replace=False)
        except FileExistsError:
            raise KeysError(
                f"{name} is already trusted with another key", hint=f"run `telemetry keys revoke {name}` first"
            ) from None
        except OSError as error:
            raise KeysError(f"can't write {self.trusted_path / name}: {error.strerror}") from error

    def revoke(self, name: str) -> None:
        """Stop trusting a name. Raises UsageError for an invalid name, KeysError if no key has it."""
        check_name(name)
        try:
            (self.trusted_path / name).unlink()
        except FileNotFoundError:
            raise KeysError(f"no trusted key has the name {name}", hint="`telemetry keys show` shows all") from None
        except OSError as error:
            raise KeysError(f"can't remove {self.trusted_path / name}: {error.strerror}") from error

    def resolve(self, text: str) -> bytes:
        """Return the public key in an address: the key itself, or the one trusted under that name.

        Raises KeysError.
        """
        if is_key(text):
            return text.encode()
        if not is_name(text):
            raise KeysError(f"{text!r} is not a public key or a name", hint="write tcp://HOST:PORT#KEY-OR-NAME")
        self._refuse_if_foreign()
        try:
            return _public_key(self.trusted_path / text)
        except FileNotFoundError:
            raise KeysError(
                f"no trusted key has the name {text}", hint=f"add it with: telemetry keys trust {text} KEY"
            ) from None
        except OSError as error:
            raise KeysError(f"can't read {self.trusted_path / text}: {error.strerror}") from error

    def _names(self) -> Iterator[str]:
        """Yield names of possible keys, in order, without unfinished and hidden files."""
        try:
            names = sorted(os.listdir(self.trusted_path))
        except FileNotFoundError:
            return
        self._refuse_if_foreign()
        yield from filter(is_name, names)

    def _refuse_if_foreign(self) -> None:
        """Raise KeysError if another user could have put a key here."""
        for path in (self.path, self.trusted_path):
            with suppress(FileNotFoundError):
                _refuse_if_foreign(path, path.stat())


def of_user(setting: str | None = None) -> KeyFolder:
    """Return the folder of the settings; `setting` is `security.keys_dir` if it has been read already.

    Creates no files. Raises ConfigError for invalid settings, KeysError for a user without a home.
    """
    from telemetry.config.load import load, user_config_path

    named = load().config.security.keys_dir if setting is None else setting
    if named:
        return KeyFolder(Path(named).expanduser().absolute())
    settings = user_config_path(os.environ)
    if settings is None:
        raise KeysError("no home directory to keep keys in", hint="set TELEMETRY_SECURITY__KEYS_DIR")
    return KeyFolder(settings.parent / "keys")


def is_key(text: str) -> bool:
    """Return whether the text is a key in Z85: each five characters are 32 bits."""
    return (
        len(text) == KEY_CHARS
        and all(char in _DIGITS for char in text)
        and all(_number(text[at : at + 5]) < 1 << 32 for at in range(0, KEY_CHARS, 5))
    )


def _number(digits: str) -> int:
    return functools.reduce(lambda number, char: number * len(_DIGITS) + _DIGITS.index(char), digits, 0)


def is_name(text: str) -> bool:
    """Return whether the text can be the name of a trusted key."""
    return _NAME.match(text) is not None


def check_name(name: str) -> None:
    """Raise UsageError unless the text can be the name of a trusted key."""
    if not is_name(name):
        raise UsageError(
            f"{name[:60]!r} is not a valid name for a key",
            hint=f"use letters, digits, `.`, `_`, `@` and `-`, at most {KEY_CHARS - 1}",
        )


def _public_key(path: Path) -> bytes:
    """Return the public key in the file. Raises OSError, and KeysError for a rejected file."""
    text, facts = _read(path)
    _refuse_if_foreign(path, facts)
    key = text.strip()
    if not is_key(key):
        raise KeysError(
            f"{path} contains no public key", hint=f"remove it, then `telemetry keys trust {path.name} KEY`"
        )
    return key.encode()


def _read(path: Path) -> tuple[str, os.stat_result]:
    """Return the text of a small file, and the facts of that same file."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        data = file.read(limits.KEY_FILE_BYTES)
        return data.decode("ascii", "replace"), os.fstat(file.fileno())


def _refuse_if_foreign(path: Path, facts: os.stat_result) -> None:
    """Raise KeysError if another user could have written it."""
    if facts.st_uid not in (os.geteuid(), 0):
        raise KeysError(f"{path} belongs to another user", hint="set security.keys_dir to a folder that you own")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise KeysError(f"other users can change {path}", hint=f"chmod go-w {path}")


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    """Return a value that changes with the file; `st_ctime_ns` changes with the content, the name and the mode."""
    return facts.st_ino, facts.st_ctime_ns, facts.st_size


def _write_private(path: Path, text: str, *, replace: bool) -> None:
    """Write a file atomically that other users can never read. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)  # unlike a rename it fails if the file exists
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
