"""Text and annotated files: sentences from files of any size, tagged sentences, and labelled records.

Imports `elmo_hf.model` for the tokenizer. `training`, `cli` and `integrations` read their input through it.
"""
