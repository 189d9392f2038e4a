"""The gateway under load, beside a bare application on the same server. Needs `wrk`."""
