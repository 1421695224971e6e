"""Bring the files of an original model here: download links, unpack archives, walk folders, list known releases.

Import `read_original` and `gather` from `sources`; `archives` and `download` serve it. `releases` is data and imports
nothing. Nothing here knows a format: that is the concern of `readers`.
"""
