"""Loading and running models: sentences, maps, predictions, scores, proofs. Imports checkpoints and what is below."""
