"""Defaults that commands show and configurations have."""

from typing import Final

DEFAULT_SAMPLES: Final = 20
DEFAULT_TEMPERATURE: Final = 0.7
DEFAULT_TAU: Final = 0.10  # the threshold of P_tau
DEFAULT_INPUTS: Final = 1000  # generated inputs on which a sample is compared with its canon
