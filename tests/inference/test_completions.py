"""What a body says, and what many cost: read and counted without a server."""

from pathlib import Path

import pytest

from inference import endpoint as client
from inference.completions import Tally, read_answer
from inference.endpoint import FaultError

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{}", b"[]", b'"text"', b"{", b"\xff\xfe", b'{"choices": {}}', b'{"choices": [null]}',
     b'{"choices": [{"message": null}]}', b'{"choices": [{"message": {"content": 5}}]}', b"9" * 5000, b"[" * 10**6],
)  # fmt: skip
def test_bodies_that_are_no_completion(body: bytes) -> None:
    with pytest.raises(FaultError) as error:
        read_answer(body)
    assert error.value.kind == "malformed"


@pytest.mark.parametrize("depth", [300, 900, 960, 990, 5000])
def test_nested_bodies_are_faults_and_never_errors(depth: int) -> None:
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    with pytest.raises(FaultError):
        read_answer(nested)
    assert client.complaint(b'{"error": {"param": %s, "code": %s}}' % (nested, nested))
    broken_off = b'{"choices": [{"message": {"content": ""}, "finish_reason": "error", "error": %s}]}' % nested
    with pytest.raises(FaultError):
        read_answer(broken_off)


def test_a_tally_of_nothing() -> None:
    assert Tally((1.0, 1.0)).summary({}) == "0 answers; 0 prompt + 0 completion tokens (0.0000 USD)"
