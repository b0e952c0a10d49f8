"""The guard and fault injection inside serving engines.

`vllm` is a KV connector that fingerprints the blocks of vLLM's paged cache and has changed ones recomputed,
`lmcache` a serde that refuses damaged chunks, `faults` what damages a running engine on purpose. What they
share knows no engine: `plan` (what one step reads and writes), `ledger` (fingerprints of blocks), `watch`
(what is verified, quarantined and reported), `store` (blocks in a folder). An engine's environment needs
torch, the engine and this package; nothing here imports transformers or another room than
`guard.fingerprint`.

May use every room before it, up to stability.
"""
