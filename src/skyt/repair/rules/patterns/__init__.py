"""Rules as before and after: matching, building, and the check that nothing is evaluated out of turn."""
