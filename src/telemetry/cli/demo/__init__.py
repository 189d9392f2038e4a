"""The benchmark that `telemetry demo` runs: a program like a user's own, on the public API alone."""
