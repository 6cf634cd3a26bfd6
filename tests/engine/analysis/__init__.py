"""What is computed of a model."""
