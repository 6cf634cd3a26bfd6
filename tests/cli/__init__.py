"""The command line, and the files that it writes."""
