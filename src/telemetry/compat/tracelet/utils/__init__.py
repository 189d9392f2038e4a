"""Helpers of Tracelet."""
