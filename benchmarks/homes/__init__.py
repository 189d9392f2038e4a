"""Calls of other systems beside ours. Needs the environment of `make homes`."""
