"""From the records of a run to its metrics: the protocol's formulas, aggregation, summaries, figures.

Hands out `summarise` and the figures. May use records; it never runs a model or a program.
"""
