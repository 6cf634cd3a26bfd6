"""Files on disk that are complete or absent: caches, tables, history, the log. Imports values alone."""
