"""Conditions on a run: parsed once, checked live and afterwards. docs/GATES.md has the language."""
