"""Statements about the product, made on real tiny models through the real loaders."""
