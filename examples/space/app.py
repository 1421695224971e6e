"""The page of `elmo-hf demo` as a Space on the Hub: name your models here, and push this folder."""

from elmo_hf.demo.page import start


# folders of the Space, or names on the Hub; visitors choose among them
MODELS = ["elmo-small-en"]

if __name__ == "__main__":
    start(MODELS, host="0.0.0.0", port=7860).block_thread()
