"""The Parquet backend: the tables of a run in a lake of many runs."""

from telemetry.backends.parquet.backend import ParquetBackend

__all__ = ["ParquetBackend"]
