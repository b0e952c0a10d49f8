"""What is known of a program: types, bounds, effects, liveness, ownership. Rules ask, analysis answers."""
