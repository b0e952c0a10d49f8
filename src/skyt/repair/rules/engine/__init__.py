"""The engine: rounds of rules over a program until none fires, with what is known at each place."""
