"""Where a model's files are, how to read one tensor, where an architecture keeps its heads, how to run a sentence."""
