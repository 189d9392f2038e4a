"""The event bus of an MLCommons endpoints benchmark: decoding of its messages, and their translation to a run."""
