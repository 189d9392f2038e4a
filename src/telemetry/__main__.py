"""Entry point of `python -m telemetry`, which is the `telemetry` command."""

from telemetry.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
