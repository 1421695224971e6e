"""`python -m elmo_hf_conversion SOURCE... --output FOLDER`: the same as `elmo-hf convert`."""

import sys

from elmo_hf.cli import main


if __name__ == "__main__":
    sys.exit(main(["convert", *sys.argv[1:]]))
