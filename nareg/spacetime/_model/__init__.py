"""What a fitted space-time model does: smooth, forecast, stream, extend and place sensors."""
