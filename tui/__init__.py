"""The Textual application and the command line; they draw what the engine computes and know nothing of torch."""
