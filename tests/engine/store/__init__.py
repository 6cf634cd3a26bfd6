"""Files that are written."""
