"""The page of `elmo-hf demo`, on which you see what a model makes of your sentences.

`text` bounds what a visitor gives, `models` computes, `tables` writes HTML, and `tabs` makes the content of each tab
from these. `page`, the only module that needs Gradio, puts it on a page. `cli` imports this room, and so does the
Space in `examples/space`.
"""
