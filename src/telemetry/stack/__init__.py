"""The stack: Prometheus, Tempo and Grafana beside the runs of this user."""
