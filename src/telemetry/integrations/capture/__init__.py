"""Hooks into libraries that a program uses, for `telemetry run --capture` and for `install()` by hand."""
