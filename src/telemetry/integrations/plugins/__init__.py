"""Plugins that other libraries load from installed packages. Without TELEMETRY_CAPTURE they have no effect."""
