"""`kernels.contract`: the Hub files pass tuples of the same fields, and backends have the same methods."""

import inspect

import pytest

from elmo_hf import kernels
from elmo_hf.kernels import contract
from elmo_hf.model import kernels_elmo, recurrence_elmo


@pytest.mark.parametrize("name", ["LinearMaps", "LstmCall", "LstmWeights", "Saved"])
def test_the_hub_files_pass_the_same_fields(name: str) -> None:
    assert getattr(recurrence_elmo, name)._fields == getattr(contract, name)._fields


@pytest.mark.parametrize("backend", recurrence_elmo.backends(), ids=lambda backend: backend.name)
@pytest.mark.parametrize("method", ["missing", "declines", "forward", "backward"])
def test_every_backend_has_the_same_methods(method: str, backend: contract.Backend) -> None:
    arguments = list(inspect.signature(getattr(type(backend), method)).parameters)

    assert arguments == list(inspect.signature(getattr(contract.Backend, method)).parameters)
    assert arguments == list(inspect.signature(getattr(recurrence_elmo.Backend, method)).parameters)


def test_the_interface_is_the_one_that_the_hub_files_know() -> None:
    assert kernels.INTERFACE == kernels_elmo.INTERFACE


def test_the_backends_are_asked_in_order() -> None:
    assert [backend.name for backend in recurrence_elmo.backends()] == ["native", "triton", "packed"]
