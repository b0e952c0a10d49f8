"""A GGUF file that converts in a second: one Llama layer and seven tokens, beginning with `<bos>`."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WIDTH, INNER, TOKENS = 32, 64, ["<unk>", "<bos>", "<eos>", "a", "b", "ab", "Ġ"]


def write_gguf(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([2, 3, 3, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    draw = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(TOKENS), WIDTH),
        "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH // 2, WIDTH),
        "blk.0.attn_v": (WIDTH // 2, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (INNER, WIDTH),
        "blk.0.ffn_up": (INNER, WIDTH),
        "blk.0.ffn_down": (WIDTH, INNER),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
