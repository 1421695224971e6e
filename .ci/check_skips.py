"""Fail if a test was skipped where all that it needs should be: `check_skips.py report.xml`.

Without the oracles or AllenNLP's fixture the suite would be green and prove little. Only a missing GPU is no fault.
"""

import re
import sys
from xml.etree import ElementTree


ALLOWED = re.compile(r"CUDA|GPU")


def main(report: str) -> int:
    """Print every skip that is not allowed, and return 1 if there is one or if no test ran."""
    root = ElementTree.parse(report).getroot()
    tests = [case for case in root.iter("testcase") if case.find("skipped") is None]
    skips = [(case, skipped.get("message", "")) for case in root.iter("testcase") for skipped in case.iter("skipped")]
    faults = [f"{case.get('classname')}::{case.get('name')}: {why}" for case, why in skips if not ALLOWED.search(why)]
    sys.stdout.writelines(f"must not be skipped here: {fault}\n" for fault in faults)
    if not tests:
        sys.stdout.write("no test ran\n")
    return 1 if faults or not tests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
