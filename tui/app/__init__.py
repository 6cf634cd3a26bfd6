"""The application: its frame, its keys, and how it opens a model."""
