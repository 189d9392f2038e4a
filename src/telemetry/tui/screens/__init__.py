"""One screen a file: which widgets, and which models feed them."""
