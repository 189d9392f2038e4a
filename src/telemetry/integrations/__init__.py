"""Integrations with programs that do not use telemetry themselves."""
