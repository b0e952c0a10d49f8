"""Values: their types, their bounds, and what closed expressions come to."""
