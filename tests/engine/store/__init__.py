"""Files on disk: the cache, exports, formats."""
