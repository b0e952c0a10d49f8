"""The same prompts through an engine's cold, cached, stored and reloaded blocks: what changes on the way.

`subjects` puts four engines behind one small interface; `cases` are the round trips. A subject can be started
with a planted fault, so that the cases themselves can be tested.
"""
