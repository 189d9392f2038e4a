"""`telemetry keys`: this user's key pair, and the keys that are trusted."""

from __future__ import annotations

import argparse
import getpass
import shlex
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry import limits
from telemetry.cli import console
from telemetry.cli.parser import CommandParser
from telemetry.errors import KeysError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.transport.keys import KeyFolder


def add_arguments(parser: CommandParser) -> None:
    actions = parser.add_actions("show", _KeyParser)
    new = actions.add_parser("new", help="create this user's key pair and print the public key", allow_abbrev=False)
    new.add_argument(
        "--force",
        action="store_true",
        help="replace the key pair; everyone who trusts the old key needs the new one",
    )
    show = actions.add_parser("show", help="print the public key and the trusted keys", allow_abbrev=False)
    show.add_argument("--json", action="store_true", help="print JSON")
    trust = actions.add_parser(
        "trust", help="allow the holder of a key to connect to aggregators of this user", allow_abbrev=False
    )
    trust.add_argument("name", metavar="NAME", help="name for the key; addresses may end in #NAME")
    trust.add_argument("key", metavar="KEY", help="public key, file that contains one, or `-` for standard input")
    revoke = actions.add_parser("revoke", help="stop trusting a key, effective immediately", allow_abbrev=False)
    revoke.add_argument("name", metavar="NAME", help="name of the trusted key")


class _KeyParser(CommandParser):
    """A parser that accepts a key with a leading dash. One in 85 keys from other programs begins with a dash."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        from telemetry.transport.keys import is_key

        argv = list(args or ())
        at = next((at for at, word in enumerate(argv) if word.startswith("-") and is_key(word)), len(argv))
        return super().parse_known_args([*argv[:at], "--", *argv[at:]] if argv[at:] else argv, namespace)


def run(args: argparse.Namespace) -> int:
    from telemetry.transport.keys import of_user

    return _ACTIONS[args.action](args, of_user())


def _new(args: argparse.Namespace, folder: KeyFolder) -> Exit:
    pair = folder.make_pair(replace=args.force)
    public = pair.public.decode()
    console.say(f"key pair created in {folder.path}")
    console.say(f"run on the other machine: telemetry keys trust {_name_for_others()} {shlex.quote(public)}")
    console.write(f"{public}\n")
    return Exit.OK


def _show(args: argparse.Namespace, folder: KeyFolder) -> Exit:
    public = folder.own().public.decode() if folder.has_pair else None
    trusted = folder.trusted()
    names = {name: key.decode() for name, key in trusted.keys.items()}
    for problem in trusted.problems:
        console.say(problem)
    if args.json:
        console.write_json({"folder": str(folder.path), "public": public, "trusted": names})
        return Exit.OK
    if public is None:
        console.say("no key pair yet: create one with `telemetry keys new`")
    rows = {"folder": str(folder.path), "public key": public or "none"} | names
    width = max(map(len, rows))
    console.write("".join(f"{name:<{width}}  {value}\n" for name, value in rows.items()))
    return Exit.OK


def _trust(args: argparse.Namespace, folder: KeyFolder) -> Exit:
    folder.trust(args.name, _key_from(args.key))
    console.say(f"{args.name} is now trusted; the key is in {folder.path}, and running aggregators accept it too")
    return Exit.OK


def _revoke(args: argparse.Namespace, folder: KeyFolder) -> Exit:
    folder.revoke(args.name)
    console.say(f"{args.name} is no longer trusted; its connections close within seconds")
    return Exit.OK


def _key_from(text: str) -> str:
    """Return the key itself, or the text of the small file that `text` names."""
    from telemetry.transport.keys import is_key

    if is_key(text):
        return text
    if text == "-":
        return sys.stdin.read(limits.KEY_FILE_BYTES).strip()
    try:
        with Path(text).open(encoding="ascii", errors="replace") as file:
            return file.read(limits.KEY_FILE_BYTES).strip()
    except FileNotFoundError:
        raise UsageError(f"{text!r} is not a public key or a file", hint="put quotes around a key: '…'") from None
    except OSError as error:
        raise KeysError(f"can't read {text}: {error.strerror}") from error


def _name_for_others() -> str:
    """Suggest a name under which another user can trust this user. They may choose a different one."""
    from telemetry.transport.keys import is_name

    try:
        name = f"{getpass.getuser()}@{socket.gethostname().partition('.')[0]}"
    except (OSError, KeyError):
        return "NAME"
    return name if is_name(name) else "NAME"


_ACTIONS = {"new": _new, "show": _show, "trust": _trust, "revoke": _revoke}
