"""`telemetry notify`: the receivers of notifications, and a message to each, to see whether its address works."""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Sequence

from telemetry.cli import console
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("list", "test"),
        nargs="?",
        default="list",
        help="list: show the receivers and check their addresses; test: send a message to each (default: list)",
    )
    parser.add_argument(
        "urls", nargs="*", metavar="URL", help="address of Apprise, such as ntfy://TOPIC (default: notify.urls)"
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.config import load
    from telemetry.config.load import env_name
    from telemetry.config.notify_urls import FLAG, KEY

    loaded = load()
    urls = args.urls or loaded.config.notify.urls
    if args.what == "list":
        return _list(urls, "given here" if args.urls else loaded.origins[KEY])
    if not urls:
        hint = f"give a URL, or set {KEY} or {env_name(KEY)}; `telemetry run {FLAG} URL` notifies about one run"
        raise UsageError("no receiver of notifications is configured", hint=hint)
    return _test(urls)


def _list(urls: Sequence[str], origin: str) -> int:
    """Print each receiver without its secrets, and the origin of its address. Raises UsageError for a wrong one."""
    from telemetry.cli.receivers import checked_receivers
    from telemetry.config.load import env_name
    from telemetry.config.notify_urls import FLAG, KEY, masked

    for url in urls:
        console.write(f"{masked(url)}  ({origin})\n")
    if not urls:
        console.say(
            f"no receiver of notifications is configured: set {KEY} or {env_name(KEY)}, or add {FLAG} URL to "
            "`telemetry run`; `telemetry notify test URL` tries an address"
        )
        return Exit.OK
    checked_receivers(urls)
    console.say("`telemetry notify test` sends a message to each")
    return Exit.OK


def _test(urls: Sequence[str]) -> int:
    from telemetry.backends.backend import NotConfigured
    from telemetry.backends.notify.apprise_receiver import receivers
    from telemetry.backends.notify.message import message

    lines = ["Notifications arrive.", f"host {socket.gethostname()}"]
    notification = message("test", "start", "telemetry: this is a test", lines, look="info", time_ns=time.time_ns())
    code = Exit.OK
    for url in urls:
        try:
            (receiver,) = receivers([url])
        except NotConfigured as error:
            console.say(str(error))
            code = Exit.USAGE
            continue
        reason = receiver.send(notification)
        console.say(f"{receiver.label}: {f'not delivered: {reason}' if reason else 'delivered'}")
        code = Exit.BACKEND_FAILED if reason else code
    return code
