"""What connects a run to programs that know nothing of telemetry."""
