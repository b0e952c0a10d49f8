"""Rules for control flow: branches, guards, loops, and the order of statements."""
