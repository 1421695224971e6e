"""Text and annotated files: sentences from files of any size, tagged sentences, labelled records, and batches.

Imports `elmo_hf.model` for the tokenizer. `embedding`, `training`, `integrations` and `cli` import it.
"""
