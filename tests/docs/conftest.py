"""Pages run where child processes do: in a private working and runtime directory."""

from tests.process.conftest import ground

__all__ = ["ground"]
