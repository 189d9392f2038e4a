"""Entry point of `python -m telemetry.stack.dashboards DIR`, which writes the dashboards into a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry.stack.dashboards import write


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m telemetry.stack.dashboards", description="Write the Grafana dashboards as JSON files."
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder for the files")
    paths = write(parser.parse_args().directory)
    sys.stdout.write("".join(f"{path}\n" for path in paths))


if __name__ == "__main__":
    main()
