"""What telemetry costs, measured beside other libraries. `python -m benchmarks.run --help`."""
