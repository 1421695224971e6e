"""`integrations.vector_cache`: vectors by key, up to a number of bytes."""

import numpy as np

from elmo_hf.integrations.vector_cache import ENTRY_BYTES, VectorCache


# with these vectors of 10 numbers, three fit
VECTORS = np.arange(40, dtype=np.float32).reshape(4, 10)
THREE = 3 * (40 + ENTRY_BYTES)


def test_forgets_what_was_not_used_for_longest() -> None:
    cache = VectorCache()
    for number in range(3):
        cache.put(number, VECTORS[number], max_bytes=THREE)
    assert cache.get(0) is not None

    cache.put(3, VECTORS[3], max_bytes=THREE)

    assert cache.num_bytes == THREE
    found = {number: cache.get(number) for number in range(4)}
    assert found.pop(1) is None
    for number, vector in found.items():
        np.testing.assert_array_equal(vector, VECTORS[number])


def test_a_key_takes_its_space_once() -> None:
    cache = VectorCache()
    for number in (0, 1):
        cache.put("key", VECTORS[number], max_bytes=THREE)

    assert cache.num_bytes == 40 + ENTRY_BYTES
    np.testing.assert_array_equal(cache.get("key"), VECTORS[1])


def test_a_smaller_size_takes_effect_at_once() -> None:
    cache = VectorCache()
    for number in range(3):
        cache.put(number, VECTORS[number], max_bytes=THREE)

    cache.put(3, VECTORS[3], max_bytes=100)

    assert cache.num_bytes == 0
    assert cache.get(3) is None


def test_forgets_all() -> None:
    cache = VectorCache()
    cache.put(0, VECTORS[0], max_bytes=THREE)

    cache.clear()

    assert (cache.num_bytes, cache.get(0)) == (0, None)
