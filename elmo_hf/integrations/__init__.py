"""Other libraries: scikit-learn, spaCy, matplotlib and ONNX.

Each module imports its library when it is used, and names the extra that installs it.
"""
