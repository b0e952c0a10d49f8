"""Running strangers' code: jailed, pre-forked, with results as plain data."""
