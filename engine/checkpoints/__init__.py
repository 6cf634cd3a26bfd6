"""Checkpoints: from a name to tensors, whatever their format; above ``architectures``, below ``models``."""
