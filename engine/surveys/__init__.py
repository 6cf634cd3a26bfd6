"""Tables of many checkpoints: their names, the tasks of a Dask cluster, the folder they go to, and measures over steps.

May import ``analysis`` and what is below it.
"""
