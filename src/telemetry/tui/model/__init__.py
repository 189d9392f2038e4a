"""What is on the screen, as plain values: pure functions of a Scene and a View. No textual here."""
