"""The event bus of an MLCommons endpoints benchmark: its bytes, and what they mean for a run."""
