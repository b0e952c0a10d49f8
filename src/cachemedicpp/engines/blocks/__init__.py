"""What any engine with paged blocks needs: which blocks are known, damaged, in quarantine, or implausible.

Nothing here imports an engine: the rooms of the engines translate to and from it.
"""
