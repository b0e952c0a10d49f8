"""Evaluation: every task, corruption type, severity and defence, from one prefill per example.

Hands out the grid, the defences as the grid sees them, and the evaluation stage of a run. May use every room
before it: cache, corruption, guard, repair, tasks, train.
"""
