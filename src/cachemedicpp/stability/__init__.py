"""Stability around the clean state: how far logits move when the cache is perturbed a little.

Hands out logit sensitivity, amplification maps and the stability stage of a run. May use every room before
it, up to eval.
"""
