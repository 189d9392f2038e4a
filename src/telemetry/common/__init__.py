"""Small words and tools that every room may use."""
