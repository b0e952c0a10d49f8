"""Training a repair operator by distillation from the clean model: see `stage.train_run`."""
