"""Run the command: `python -m elmo_hf.cli`."""

import sys

from .main import main


sys.exit(main())
