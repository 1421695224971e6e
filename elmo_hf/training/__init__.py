"""Training: the language model and its perplexity, fine-tuning on a task, checkpoints, and changing a vocabulary.

Imports `model`, `data`, `hub` and `embedding`; only `cli` and the scripts in `examples/` import it.
"""
