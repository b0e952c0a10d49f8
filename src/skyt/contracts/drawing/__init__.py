"""Calls drawn inside a domain: hypothesis strategies for specs, and what is kept of them on disk.

Everything that loads hypothesis is imported when calls are drawn, not before.
"""
