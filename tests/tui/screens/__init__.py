"""The screens over the explorer."""
