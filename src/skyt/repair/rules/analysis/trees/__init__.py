"""Syntax trees: copying, comparing, walking and building them."""
