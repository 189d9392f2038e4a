"""`telemetry notify test`: a notification to each receiver, to see whether its address works."""

from __future__ import annotations

import argparse
import socket
import time

from telemetry.cli import console
from telemetry.cli.exit_codes import Exit
from telemetry.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("test",), help="test: send a notification to each receiver")
    parser.add_argument(
        "urls", nargs="*", metavar="URL", help="address of Apprise, such as ntfy://TOPIC (default: notify.urls)"
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.backends.backend import NotConfigured
    from telemetry.backends.notify.apprise_receiver import receivers
    from telemetry.backends.notify.message import message
    from telemetry.config import load
    from telemetry.config.load import env_name
    from telemetry.config.notify_urls import KEY

    urls = args.urls or load().config.notify.urls
    if not urls:
        raise UsageError("no receiver is known", hint=f"give a URL, or set {KEY} or {env_name(KEY)}")
    lines = ["Notifications arrive.", f"host {socket.gethostname()}"]
    one = message("test", "start", "telemetry: this is a test", lines, look="info", time_ns=time.time_ns())
    code = Exit.OK
    for url in urls:
        try:
            (receiver,) = receivers([url])
        except NotConfigured as error:
            console.say(str(error))
            code = Exit.USAGE
            continue
        reason = receiver.send(one)
        console.say(f"{receiver.label}: {f'not delivered: {reason}' if reason else 'delivered'}")
        code = Exit.BACKEND_FAILED if reason else code
    return code
