"""Operator G: a calibrated Gaussian field over the KV cache that repairs it blind and in closed form."""

from cachemedicpp.repair.gaussian.calibrate import calibrate
from cachemedicpp.repair.gaussian.operator import GaussianRepair
from cachemedicpp.repair.gaussian.statistics import Statistics

__all__ = ["GaussianRepair", "Statistics", "calibrate"]
