"""How a worker of bench_speed.py is asked: a request a line, as JSON, each answered by a line. `load` comes first.

Imports nothing of either side.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable


def seconds_of(function: Callable[[], object]) -> float:
    """Call a function; return what it took."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class Worker:
    """What each side can do."""

    def memory(self) -> dict[str, float]:
        """Tell the largest memory so far, in MiB."""
        return {"mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}

    def serve(self) -> None:
        """Answer requests until there are no more."""
        answers = os.fdopen(os.dup(1), "w")
        # what libraries print is not an answer
        os.dup2(2, 1)
        for line in sys.stdin:
            request = json.loads(line)
            answer = getattr(self, request.pop("do"))(**request)
            print(json.dumps(answer), file=answers, flush=True)
