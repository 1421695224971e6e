"""ELMo in other libraries, each of which an extra installs.

* `vectorizer`: `ElmoVectorizer`, a transformer of scikit-learn (extra `sklearn`);
* `spacy_component`: spaCy's pipeline component `elmo` (extra `spacy`);
* `plotting`: pictures by matplotlib (extra `plot`);
* `onnx_export`: `export_onnx`, which writes a model as ONNX (extra `onnx`);
* `vector_cache`: the vectors that the vectorizers of a process share.

Import the names from these modules: this package imports none of them, so that each extra can be missing. The first
three load the model when they need it (`elmo_hf.embedding.lazy_model`).
"""
