"""What a tracker is told, as plain values."""
