"""What learns a space-time model from readings."""
