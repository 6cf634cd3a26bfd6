"""The engine thread: requests in, results and progress out; the cache on disk."""
