"""The middleware as an endpoint: an OpenAI-compatible server that anchors and repairs (extra `serve`).

`web` answers over HTTP, `anchoring` is one request's way, `upstream` is where outputs come from, `database`
keeps them, `cli` has the commands. May use every other room but middleware.
"""
