"""`telemetry verify`: a check that a card is unchanged, and that its figures are those of its run."""

from __future__ import annotations

import argparse
import base64
import binascii
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.cli.commands.recover import ProgressLine
from telemetry.cli.commands.seal import NAMESPACE, program
from telemetry.common.formatting import number_of, percent
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.report.card import Seal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("card", metavar="CARD", help="card of `telemetry seal`: an SVG or Markdown file")
    parser.add_argument(
        "target",
        metavar="RUN",
        nargs="?",
        help="run of the card: check its files too, and compute the figures again from its journal",
    )
    find_run.add_dir_argument(parser)
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--signers", metavar="FILE", help="ssh keys to trust, as in ALLOWED SIGNERS of ssh-keygen(1)")
    keys.add_argument(
        "--public-key", metavar="KEY", help="public key of minisign to trust: the key itself or a file"
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.report.card import checked
    from telemetry.report.card.card import Difference

    for option, file in (("CARD", args.card), ("--signers", args.signers)):
        if file is not None and not Path(file).is_file():
            raise UsageError(f"{option}: {file} is not a file")
    try:
        seal = checked(_text(Path(args.card)))
        console.write(f"card: shows what its facts give · sha256 {seal.digest}\n")
        console.write(f"signature: {_signature(seal, args)}\n")
        if args.target is None:
            console.say("files and figures are not checked: give RUN to check them")
        else:
            _check_run(seal, args)
    except Difference as difference:
        console.write(f"differs: {console.visible(str(difference))}\n")
        return Exit.ERROR
    if seal.signature.startswith("minisign ") and args.public_key is None:
        console.write("not verified: the signature is not checked: give --public-key KEY\n")
        return Exit.ERROR
    console.write(f"verified: {'the card alone' if args.target is None else 'card, files and figures'}\n")
    return Exit.OK


def _text(path: Path) -> str:
    """Return the text of a card. Bytes that are no UTF-8 are replaced, so that they differ from any card."""
    try:
        with open(path, "rb") as file:
            data = file.read(limits.FACTS_BYTES + 1)
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {error.strerror}") from error
    if len(data) > limits.FACTS_BYTES:
        raise RunDirectoryError(f"{path} is not a card: it has more than {limits.FACTS_BYTES:,} bytes")
    return data.decode("utf-8", "replace")


def _check_run(seal: Seal, args: argparse.Namespace) -> None:
    """Compare the files of the run, then figures and facts recomputed from them. Raises Difference."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `serve`
    from msgspec.structs import replace

    from telemetry.daemon.recovery.recompute import recompute
    from telemetry.history.requests import with_requests
    from telemetry.history.run import RecordedRun
    from telemetry.report.card.card import card_of, check_facts, check_files, ended
    from telemetry.store.run_directory import resolve

    card = seal.card
    directory = resolve(args.target, find_run.root_directory(args.dir))
    directory.await_release(limits.CONTROL_TIMEOUT_S)
    check_files(directory, card.files)
    console.write(f"files: {number_of(len(card.files), 'file')} as sealed\n")
    result = ended(directory)
    with ProgressLine() as progress:
        snapshot = recompute(directory, result.snapshot, progress)
    again = with_requests(replace(result, snapshot=snapshot, requests=[], bounds=[], findings=[]))
    tolerance = 0.0
    if not (snapshot.exact and result.snapshot.exact):
        series = (*snapshot.series, *result.snapshot.series)
        tolerance = max((stat.error_bound or 0.0 for stat in series), default=0.0)
    check_facts(card, card_of(RecordedRun(again, directory).report(), directory, card.files), tolerance)
    within = (
        f", within {percent(tolerance)}: {snapshot.exact_reason or result.snapshot.exact_reason}"
        if tolerance
        else ""
    )
    console.write(f"figures: {number_of(len(card.figures), 'figure')} as recomputed from the journal{within}\n")


def _signature(seal: Seal, args: argparse.Namespace) -> str:
    """Describe the signature of a card. Raises Difference if it is wrong, or missing although a key is given."""
    from telemetry.report.card.card import Difference

    kind, _, encoded = seal.signature.partition(" ")
    wanted = "ssh" if args.signers else "minisign" if args.public_key else ""
    if wanted and kind != wanted:
        raise Difference(
            f"the card has {f'a signature of {kind}' if kind else 'no signature'}, not one of {wanted}"
        )
    if not kind:
        return "none"
    with tempfile.TemporaryDirectory(prefix="telemetry-verify-") as folder:
        message, signature = Path(folder) / "facts.json", Path(folder) / "signature"
        message.write_text(seal.card.canonical())
        try:
            signature.write_bytes(base64.b64decode(encoded, validate=True))
        except binascii.Error as error:
            raise Difference("the signature was changed: it is not base64") from error
        if kind == "ssh":
            return _ssh(message, signature, args.signers)
        return _minisign(message, signature, args.public_key)


def _ssh(message: Path, signature: Path, signers: str | None) -> str:
    ssh, on = program("ssh-keygen"), ["-n", NAMESPACE, "-s", str(signature)]
    if signers is None:
        line = _call([ssh, "-Y", "check-novalidate", *on], message)
        return f"{line}; nobody vouches for this key: give --signers FILE"
    principals = _call([ssh, "-Y", "find-principals", "-s", str(signature), "-f", signers], message)
    return _call([ssh, "-Y", "verify", "-f", signers, "-I", principals.split(",")[0], *on], message)


def _minisign(message: Path, signature: Path, key: str | None) -> str:
    if key is None:
        return "by minisign, not checked"
    option = "-p" if Path(key).is_file() else "-P"
    return _call([program("minisign"), "-V", "-m", str(message), "-x", str(signature), option, key], message)


def _call(command: list[str], message: Path) -> str:
    """Return the first line that a program prints about a message. Raises Difference if it refuses."""
    from telemetry.report.card.card import Difference

    with open(message, "rb") as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, errors="replace", check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()] or ["no message"]
    if done.returncode:
        raise Difference(f"the signature is not valid: {Path(command[0]).name}: {lines[-1]}")
    return console.visible(lines[0])
