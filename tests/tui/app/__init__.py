"""The application: start, keys, models, and the end."""
