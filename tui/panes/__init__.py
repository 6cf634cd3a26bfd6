"""The panes beside the tree: spectra, ranks and attention."""
