"""Sharing layers changes what is computed twice, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cachemedicpp.cache.shared import decoder_layers, entering, resumed_at, shared_layers
from cachemedicpp.cache.state import KVState, stack


def _forks(model: Any, ids: Any, layer: int, rows: int = 4) -> KVState:
    """Forks of one prefix whose stored keys differ in `layer` only."""
    with torch.no_grad():
        clean = KVState(model(torch.tensor([ids]), use_cache=True).past_key_values)
    K, V = clean[layer]
    return stack([clean.replace({layer: (K + 0.1 * row, V)}) for row in range(rows)])


def _counted(model: Any, query: Any, cache: Any) -> tuple[Any, list[int]]:
    """The logits of a call, and the number of rows that each decoder layer computed."""
    found: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda m, a, k, out: found.append(_first(out).shape[0]), with_kwargs=True)
        for layer in decoder_layers(model)
    ]
    try:
        logits = model(query, past_key_values=cache).logits
    finally:
        for hook in hooks:
            hook.remove()
    return logits, found


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output


@pytest.mark.parametrize("family", ["tiny_llama", "tiny_gpt2"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_forks_have_the_same_logits_and_cache_and_their_common_layers_run_for_one_row(
    family: str, layer: int, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    forks, query = _forks(model, list(range(5, 25)), layer), torch.tensor([[7, 9, 11]] * 4)
    with torch.no_grad():
        plain = forks.cache()
        expected = model(query, past_key_values=plain).logits
        again = model(expected[:, -1:].argmax(-1), past_key_values=plain).logits
        shared = forks.cache()
        with shared_layers(model):
            found, counted = _counted(model, query, shared)
            then = model(expected[:, -1:].argmax(-1), past_key_values=shared).logits
    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(then, again, atol=1e-5)
    assert counted == [1] * layer + [4] * (len(counted) - layer)
    for (K, V), (K2, V2) in zip(KVState(shared), KVState(plain), strict=True):
        assert torch.allclose(K, K2, atol=1e-5) and torch.allclose(V, V2, atol=1e-5)


def test_rows_that_read_different_tokens_share_nothing(tiny_llama: Any) -> None:
    forks, query = _forks(tiny_llama, list(range(5, 25)), 2), torch.tensor([[7], [8], [9], [9]])
    with torch.no_grad():
        expected = tiny_llama(query, past_key_values=forks.cache()).logits
        with shared_layers(tiny_llama):
            found, counted = _counted(tiny_llama, query, forks.cache())
    assert torch.allclose(found, expected, atol=1e-5)
    assert set(counted) == {4}


def test_a_second_pass_goes_on_from_the_first_and_its_gradient_is_the_same(tiny_llama: Any) -> None:
    ids = torch.randint(5, 200, (3, 20), generator=torch.Generator().manual_seed(0))
    seen: list[Any] = []
    with torch.no_grad(), entering(tiny_llama, 2, seen.append):
        cache = tiny_llama(ids, use_cache=True).past_key_values
    cache.crop(-8)
    state, grads, logits = KVState(cache), [], []
    for resumed in (False, True):
        shift = torch.zeros((), requires_grad=True)
        K, V = state[2]
        read = state.replace({2: (K + shift, V)}).cache()
        if resumed:
            with resumed_at(tiny_llama, 2, seen[0][:, 12:]):
                out = tiny_llama(ids[:, 12:], past_key_values=read).logits
        else:
            out = tiny_llama(ids[:, 12:], past_key_values=read).logits
        (grad,) = torch.autograd.grad(out.square().mean(), shift)
        logits.append(out.detach())
        grads.append(float(grad))
    assert torch.allclose(logits[0], logits[1], atol=1e-5)
    assert grads[1] == pytest.approx(grads[0], rel=1e-3)
    assert grads[0] != 0
