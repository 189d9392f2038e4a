"""The content of the screen as plain values: pure functions of a Scene and a View. Imports no textual."""
