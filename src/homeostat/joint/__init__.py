"""The joint experiment: what damage to a model's state costs in the repeatability of the code it writes.

The only part of the program that uses both systems at once: cachemedicpp damages and repairs the KV cache of
a prompt, the model writes code from it, and skyt judges, anchors and measures what was written.

May use both systems and everything below them.
"""
