"""What is kept on disk: files that are whole or absent, and tables in them. Uses values only."""
