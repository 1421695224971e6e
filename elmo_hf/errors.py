"""What `elmo_hf` raises when an input cannot be used."""


class ElmoError(Exception):
    """An input that cannot be used; the message is one line that names the culprit and the remedy."""


__all__ = ["ElmoError"]
