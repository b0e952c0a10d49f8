"""Operator G: a calibrated Gaussian field over the KV cache that repairs it blind and in closed form."""

from cachemedicpp.gaussian.calibrate import calibrate
from cachemedicpp.gaussian.operator import GaussianRepair
from cachemedicpp.gaussian.statistics import Statistics

__all__ = ["GaussianRepair", "Statistics", "calibrate"]
