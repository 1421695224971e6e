"""Settings of Transformers' own suite; `run.py` starts it."""

from collections.abc import Generator

import pytest
import torch


def pytest_configure() -> None:
    """Keep small recurrent steps off a second thread, where they are many times slower on a busy machine."""
    torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let no test be skipped without a reason."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2] in ("Skipped", "Skipped: "):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped without a reason"
    return report
