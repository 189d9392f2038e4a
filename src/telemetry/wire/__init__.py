"""Encoding and decoding, and every struct that crosses a process boundary. No sockets, no clocks, no numpy."""
