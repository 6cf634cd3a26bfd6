"""What a terminal is sent."""
