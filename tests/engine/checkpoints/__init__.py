"""Files of models: found, fetched, read."""
