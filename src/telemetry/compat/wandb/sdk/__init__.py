"""Modules under the names that libraries import them by."""
