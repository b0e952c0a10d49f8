"""Rules for names: assignments, temporaries, and what locals are called."""
