"""What a prompt asks for: its text, its entry point, its constraints, and the inputs it speaks about.

Hands out `Contract`, `Call`, and calls generated inside a contract's domain. May use text.
"""
