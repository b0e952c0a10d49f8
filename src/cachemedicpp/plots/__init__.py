"""Figures and tables of a run, drawn from its records and nothing else: no model is loaded here.

Hands out `figures.render`, `tables.render` and the names and colours of defences. Uses the core only.
"""
