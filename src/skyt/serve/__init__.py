"""The middleware as an endpoint: an OpenAI-compatible server that anchors and repairs (extra `serve`)."""
