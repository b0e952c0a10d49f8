"""Faults in a running engine, with and without the guard: `homeostat engine campaign`.

`config` says what is tried, `run` starts one engine after another and keeps records, `driver` is what runs
in the engine's own environment, `summary` turns records into metrics, `figure` draws them. May use engines,
corruption and the core.
"""
