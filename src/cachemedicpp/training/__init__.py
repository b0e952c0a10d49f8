"""Training a repair operator by distillation from the clean model."""

from cachemedicpp.training.run import train_run

__all__ = ["train_run"]
