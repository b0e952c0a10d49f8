"""What OpenAI's clients expect to read: answers, errors and strict JSON."""
