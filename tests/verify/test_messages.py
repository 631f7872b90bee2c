"""Messages to a device process are read as they were written."""

import pytest

from kernelwright.verify.messages import Run


def test_a_message_comes_back_as_it_was() -> None:
    run = Run("small", call=2, races=True, after=[0, "running_mean"], copies=[1], believing=True)
    assert Run.read(run.body()) == run


def test_a_field_that_is_missing_is_an_error() -> None:
    body = Run("small").body()
    del body["races"]
    with pytest.raises(KeyError):
        Run.read(body)
