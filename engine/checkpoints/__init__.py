"""A model's files: where they are, how they come from the Hub, their tensors. Imports values and architectures."""
