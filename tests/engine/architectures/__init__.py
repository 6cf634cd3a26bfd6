"""Types of models and their heads."""
