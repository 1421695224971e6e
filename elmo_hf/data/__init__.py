"""Text and annotated files.

`corpus` reads sentences from text files, `tagged` sentences with a tag for each word, `records` texts with labels, and
`coreference` documents with clusters of mentions; `vocabulary` builds and reads vocabularies, and `batches` groups
sentences of similar length. Imports `model`, for the special words of the tokenizer, and the top-level modules.
`embedding`, `training`, `integrations` and `cli` import it.
"""
