"""`homeostat demo`: both systems at work on a real model, in minutes, with a run directory to look at.

May use every room but cli.
"""
