"""The Hub files: configuration, tokenizer, model, and the modules that they are made of.

Saving a model copies these files beside its weights, so that Transformers loads it where this package is not
installed. They are flat, import each other as `from .name_elmo import ...`, and otherwise import only what every
reader of a checkpoint has. Other rooms may import any of them.
"""
