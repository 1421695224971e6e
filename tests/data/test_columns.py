"""`data.columns`: the first wanted column that a data set has, or an error that names those it has."""

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.columns import choose_column


def test_takes_the_first_wanted_column_that_is_there() -> None:
    assert choose_column(["id", "words", "tokens"], ["tokens", "words"], "words") == "tokens"
    assert choose_column(["id", "words"], ["tokens", "words"], "words") == "words"


@pytest.mark.parametrize(("names", "there"), [(["id", "text"], "id, text"), ([], "none")])
def test_names_the_columns_that_are_there(names: list[str], there: str) -> None:
    with pytest.raises(ElmoError, match=f"^no column tokens or words; there are {there}: name the one of the words"):
        choose_column(names, ["tokens", "words"], "words")
