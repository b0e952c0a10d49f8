"""Training a repair operator by distillation from the clean model: see `run.train_run`."""
