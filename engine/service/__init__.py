"""The queue and its lanes, and the requests of the explorer; only the screen imports this."""
