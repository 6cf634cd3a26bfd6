"""Where each architecture stores its heads: rules as data, outlines, heads cut from tensors. Imports values alone."""
