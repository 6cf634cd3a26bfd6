"""Screens over the views and the prompt at their foot: models, export menu, help, palette, sentences, proof."""
