"""The core that both systems stand on: configuration, records, run directories, models, engines, statistics.

It knows nothing of KV caches or of generated code. It hands out small modules that are imported one by one
(`homeostat.core.records`, `homeostat.core.rundir`, …) and uses no other room.
"""
