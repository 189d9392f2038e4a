"""The gateway: metrics over HTTP."""
