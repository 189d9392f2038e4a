"""`telemetry seal`: a card of an ended run for a pull request or a paper, which others can verify."""

from __future__ import annotations

import argparse
import base64
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from telemetry.cli import console, find_run
from telemetry.cli.outputs import write
from telemetry.errors import KeysError, UsageError
from telemetry.wire.exit_codes import Exit

NAMESPACE: Final = "telemetry"
"""Namespace of ssh signatures, so that a signature of a card is valid for nothing else."""
_MINISIGN: Final = b"untrusted comment: minisign "
_SUFFIXES: Final = (".svg", ".md")
_PACKAGES: Final = {"ssh-keygen": "openssh-client", "minisign": "minisign"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser, required=True)
    parser.add_argument(
        "-o",
        "--output",
        dest="files",
        action="append",
        required=True,
        metavar="FILE",
        help="card to write: FILE.svg or FILE.md; repeat it for both",
    )
    parser.add_argument(
        "--sign",
        metavar="KEY",
        help="sign the card with this ssh key, by ssh-keygen, or with this secret key of minisign",
    )


def run(args: argparse.Namespace) -> int:
    paths = [Path(file) for file in args.files]
    if unfit := [path for path in paths if path.suffix not in _SUFFIXES]:
        raise UsageError(f"{unfit[0]} is not a card", hint="name it FILE.svg or FILE.md")
    from telemetry.report.card import drawn
    from telemetry.report.card.card import card_of, ended, sealed_files
    from telemetry.store.run_directory import resolve

    directory = resolve(args.target, find_run.root_directory(args.dir))
    report = ended(directory)
    card = card_of(report, directory, sealed_files(directory))
    signature = signed(card.canonical().encode(), Path(args.sign)) if args.sign else ""
    for path in paths:
        write(drawn(card, path.suffix, signature), path)
    console.write(f"sha256 {card.digest()}\n")
    return Exit.OK


def program(name: str) -> str:
    """Return the path of a program that signs. Raises KeysError if it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise KeysError(f"the program {name} is not installed", hint=f"install the package {_PACKAGES[name]}")
    return path


def signed(facts: bytes, key: Path) -> str:
    """Return the kind of a signature and its base64 text. Raises KeysError."""
    try:
        with open(key, "rb") as file:
            is_minisign = file.read(len(_MINISIGN)) == _MINISIGN
    except OSError as error:
        raise KeysError(f"can't read the key {key}: {error.strerror}") from error
    with tempfile.TemporaryDirectory(prefix="telemetry-seal-") as folder:
        message = Path(folder) / "facts.json"
        message.write_bytes(facts)
        if is_minisign:
            kind, signature = "minisign", message.with_suffix(".json.minisig")
            command = [program("minisign"), "-S", "-s", str(key), "-m", str(message), "-x", str(signature)]
        else:
            kind, signature = "ssh", message.with_suffix(".json.sig")
            command = [program("ssh-keygen"), "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(message)]
        code = subprocess.run(command, stdout=2, check=False).returncode  # they may ask for a passphrase
        if code or not signature.is_file():
            raise KeysError(f"{Path(command[0]).name} could not sign with {key} (exit code {code})")
        return f"{kind} {base64.b64encode(signature.read_bytes()).decode()}"
