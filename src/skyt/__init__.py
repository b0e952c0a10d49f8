"""Output: anchor a prompt to one canon, measure every generation's distance to it, and repair towards it."""
