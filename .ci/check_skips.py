"""Fail if pytest skipped a test that this environment can run: `check_skips.py report.xml [--without LIBRARY ...]`.

Without the oracles or AllenNLP's fixture the suite would be green and prove little. A test may skip itself only where
a GPU is missing, or a library that `--without` names. The script prints the files of the tests that miss a library, so
that a later stage runs them where it is installed.
"""

import argparse
import re
import sys
from xml.etree import ElementTree


def main() -> int:
    """Check the skips of one report, and return 1 if one has no excuse or if no test ran."""
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("--without", nargs="*", default=[], metavar="LIBRARY")
    options = parser.parse_args()
    cases = list(ElementTree.parse(options.report).getroot().iter("testcase"))
    libraries = re.compile(rf"\b({'|'.join(options.without)})\b") if options.without else None
    faults, files = [], set()
    for case in cases:
        for skipped in case.iter("skipped"):
            # of a module that is skipped whole, the message says only that it is
            reason = f"{skipped.get('message')} {skipped.text}"
            if libraries and libraries.search(reason):
                files.add(file_of(case))
            elif not re.search("CUDA|GPU", reason):
                faults.append(f"{case.get('classname')}::{case.get('name')}: {skipped.text}")
    sys.stderr.writelines(f"must not be skipped here: {fault}\n" for fault in faults)
    sys.stdout.writelines(f"{name}\n" for name in sorted(files))
    ran = any(case.find("skipped") is None for case in cases)
    if not ran:
        sys.stderr.write("no test ran\n")
    return 1 if faults or not ran else 0


def file_of(case: ElementTree.Element) -> str:
    """Return the path of a test's file; a module that is skipped whole is a test without a class."""
    module = case.get("classname") or case.get("name") or ""
    return module.replace(".", "/") + ".py"


if __name__ == "__main__":
    sys.exit(main())
