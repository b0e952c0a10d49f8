"""Rules for expressions: arithmetic, comparisons, connectives, literals, text."""
