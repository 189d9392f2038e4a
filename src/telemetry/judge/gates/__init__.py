"""Conditions on a run. A gate is parsed once, then checked during the run and after it. Language: docs/GATES.md."""
