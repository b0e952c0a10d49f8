"""Repair: what every repair has in common, and the kinds there are.

`base` is the seam (`Repair`, `load_repair`), `attach` puts a repair inside attention (`medic`), `heuristics`,
`operators` (A, B, C, trained) and `gaussian` (G, calibrated) are the kinds. May use cache, corruption, guard.
"""
