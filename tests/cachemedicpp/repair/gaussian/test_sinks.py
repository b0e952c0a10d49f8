"""Sinks: at which scale they are to be compared with their template."""

from __future__ import annotations

import math

import pytest
import torch

from cachemedicpp.repair.gaussian import sinks


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.3])
def test_a_sink_as_much_larger_as_the_tokens_around_it_is_measured_at_their_scale(factor: float) -> None:
    generator = torch.Generator().manual_seed(0)
    template = torch.randn(3, 4, 8, generator=generator)  # two heads' keys, then their values
    seen = template.clone()
    seen[1, :2] *= factor  # keys of one layer
    louder = torch.zeros(3, 4)
    louder[1, :2] = math.log(factor)
    expected = torch.ones(3, 4)
    expected[1, :2] = factor
    assert torch.allclose(sinks.common_scale(seen[None], template, louder)[0], expected)
    alone = sinks.common_scale(seen[None], template, torch.zeros(3, 4))
    assert bool((alone == 1).all())  # where others are as ever, the sink is what is wrong


def test_a_sink_with_noise_or_other_elements_has_no_common_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    template = torch.randn(3, 4, 64, generator=generator)
    noisy = template + torch.randn(5, 3, 4, 64, generator=generator)
    louder = torch.full((3, 4), math.log(2) / 2)  # by the noise
    assert bool((sinks.common_scale(noisy, template, louder) == 1).all())
