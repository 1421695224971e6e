"""ELMo in other libraries, each of which an extra installs.

* `vectorizer`: `ElmoVectorizer`, a transformer of scikit-learn (extra `sklearn`);
* `spacy_component`: spaCy's pipeline component `elmo` (extra `spacy`);
* `plotting`: pictures by matplotlib (extra `plot`);
* `onnx_export`: `export_onnx`, which writes a model as ONNX (extra `onnx`);
* `lazy_model`: the model that the first three load when they need it.

Import the names from these modules: this package imports none of them, so that each extra can be missing.
"""
