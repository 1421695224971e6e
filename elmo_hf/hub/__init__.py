"""Publishing: model cards, pushing a folder to a Hub in one commit, and errors of the Hub in one line.

Imports `model` and `embedding`.
"""
