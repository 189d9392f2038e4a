"""What samples say of what they are samples of. Pure: numbers in, numbers out."""
