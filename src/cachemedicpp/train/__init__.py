"""Training a repair operator by distillation from the clean model: see `stage.train_run`.

Hands out `train_run` and the settings of a training run. May use every room before it, up to tasks.
"""
