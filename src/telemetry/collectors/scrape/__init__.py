"""Collector `scrape`: metrics that a server publishes as a page in the Prometheus text format."""
