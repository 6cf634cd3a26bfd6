"""Types of models: where their heads lie."""
