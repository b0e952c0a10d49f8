"""What OpenAI's clients expect to read: answers, errors, strict JSON, and the OpenAPI description."""
