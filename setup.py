"""Build the compiled recurrence, one library a level of instructions. All else is in pyproject.toml.

`elmo_hf.kernels.native` loads the highest level that the processor allows. Where there is no compiler, or it does not
know a level, that level is left out.
"""

import platform

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel


# GCC 11 and clang 12 are the first ones that know the levels
X86_LEVELS = {level: [f"-march={level}"] for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4")}
LEVELS = X86_LEVELS if platform.machine() in ("x86_64", "AMD64") else {"plain": []}


def library(level: str, flags: list[str]) -> Extension:
    """Describe the library of a level.

    Args:
        level: Its name, which is also that of the file.
        flags: What makes the compiler use its instructions.
    """
    return Extension(
        f"elmo_hf.kernels.cpp.{level}",
        ["elmo_hf/kernels/cpp/recurrence.cpp"],
        # without the symbols for debuggers that Python's own flags ask for: they are ten times the code
        extra_compile_args=["-std=c++17", "-O3", "-ffp-contract=fast", "-pthread", "-g0", *flags],
        extra_link_args=["-pthread"],
        language="c++",
        py_limited_api=True,
        optional=True,
    )


class Wheel(bdist_wheel):
    """A wheel for one kind of system and every version of Python: the libraries call nothing of Python's."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return what a wheel's name says of Python, its ABI and the system."""
        return "py3", "none", super().get_tag()[2]


setup(ext_modules=[library(level, flags) for level, flags in LEVELS.items()], cmdclass={"bdist_wheel": Wheel})
