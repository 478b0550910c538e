from __future__ import annotations

import pytest

from resolvers.errors import BadInput, LimitExceeded
from resolvers.identifiers import parse_id, parse_ids, parse_session_id


@pytest.mark.parametrize("text", ["1", "42", "9223372036854775807"])
def test_an_id_is_a_decimal_64_bit_integer_from_1(text: str) -> None:
    assert parse_id(text, "id") == int(text)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "-1",
        "+1",
        "01",
        "1.0",
        "1e3",
        "0x10",
        " 1",
        "1 ",
        "1\n",
        "1_000",
        "abc",
        "٣",
        "\uff11",
        "9223372036854775808",
        "9" * 200,
        "1\x00",
        None,
        7,
        7.0,
        True,
        ["1"],
    ],
)
def test_anything_else_is_refused_and_the_argument_named(value: object) -> None:
    with pytest.raises(BadInput) as refused:
        parse_id(value, "friendId")
    assert refused.value.extensions == {"code": "BAD_INPUT", "argument": "friendId"}
    assert refused.value.message.startswith("friendId must be a decimal integer from 1 to 9223372036854775807")
    assert len(refused.value.message) < 200
    assert refused.value.message.isprintable()


def test_a_page_keeps_its_order_and_its_repetitions() -> None:
    assert parse_ids(["3", "1", "3"], "ids") == [3, 1, 3]
    assert parse_ids([str(n) for n in range(1, 101)], "ids") == list(range(1, 101))


def test_an_empty_page_is_bad_input() -> None:
    with pytest.raises(BadInput, match="ids must not be empty"):
        parse_ids([], "ids")


@pytest.mark.parametrize("length", [101, 5000])
def test_a_page_too_long_says_the_limit_and_its_length(length: int) -> None:
    with pytest.raises(LimitExceeded) as refused:
        parse_ids(["x"] * length, "ids")
    assert refused.value.extensions == {"code": "LIMIT_EXCEEDED", "limit": 100, "actual": length}


def test_one_malformed_id_refuses_the_page_and_says_where() -> None:
    with pytest.raises(BadInput, match=r"ids at position 1 must be a decimal integer .* not 'x'") as refused:
        parse_ids(["1", "x", "0"], "ids")
    assert refused.value.argument == "ids"


@pytest.mark.parametrize("text", ["a", "A-z_0-9", "x" * 64])
def test_a_session_id_is_1_to_64_plain_characters(text: str) -> None:
    assert parse_session_id(text, "sessionId") == text


@pytest.mark.parametrize("value", ["", "x" * 65, "a b", "a:b", "é", "a\n", "a\x00", "{1}", None, 5])
def test_other_session_ids_are_refused(value: object) -> None:
    with pytest.raises(BadInput, match="sessionId must be 1 to 64 characters") as refused:
        parse_session_id(value, "sessionId")
    assert refused.value.extensions == {"code": "BAD_INPUT", "argument": "sessionId"}
