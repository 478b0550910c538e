"""Ids, names, addresses and times in files."""

from __future__ import annotations

import pytest

from graph.imports.values import BadValueError, read_id, read_image_url, read_name, read_time

NOW = 1_796_000_000.0


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("9223372036854775807", 2**63 - 1), ("1000", 1000)])
def test_ids(text: str, number: int) -> None:
    assert read_id(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "+1",
        "007",
        " 7",
        "7 ",
        "7.0",
        "1e3",
        "0x7",
        "seven",
        "\u0667",
        "²",
        "1_000",
        "9223372036854775808",
        "9" * 200,
    ],
)
def test_what_is_no_id_is_refused_in_a_short_line(text: str) -> None:
    with pytest.raises(BadValueError, match="is not an id") as error:
        read_id(text)
    assert len(str(error.value)) < 150


def test_names_keep_what_is_inside_them() -> None:
    assert read_name(' "Tab\tand\nline" ☂ ') == '"Tab\tand\nline" ☂'
    assert read_name("x" * 200) == "x" * 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        (" \t", "empty"),
        ("x" * 201, "201 characters"),
        ("a\0b", "NUL"),
        ("caf\udce9", r"'caf\\xe9' is not UTF-8"),
    ],
)
def test_bad_names(text: str, says: str) -> None:
    with pytest.raises(BadValueError, match=says) as error:
        read_name(text)
    str(error.value).encode()  # it can be printed


def test_addresses() -> None:
    assert read_image_url("") is None
    assert read_image_url("https://example.test/7.png") == "https://example.test/7.png"
    for text in (
        "javascript:alert(1)",
        "7.png",
        "https://a b",
        "https://a\nb",
        "http://" + "x" * 2000,
        "http://\udce9",
        "http://",
        "https:///7.png",
        "https://?x",
        "http://[::1",
    ):
        with pytest.raises(BadValueError):
            read_image_url(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("", None),
        ("0", 0),
        ("1700000000", 1_700_000_000_000),
        ("1700000000.5", 1_700_000_000_500),
        ("1700000000.1239", 1_700_000_000_123),
        ("1970-01-01T00:00:00Z", 0),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14t22:13:20z", 1_700_000_000_000),
        ("2023-11-14 22:13:20Z", 1_700_000_000_000),
        ("2023-11-15T00:13:20.250+02:00", 1_700_000_000_250),
        ("2023-11-14T22:13:20.123456789-00:00", 1_700_000_000_123),
    ],
)
def test_times(text: str, milliseconds: int | None) -> None:
    assert read_time(text, NOW) == milliseconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("yesterday", "neither"),
        ("2023-11-14", "neither"),
        ("2023-11-14T22:13:20", "neither"),
        ("20231114T221320Z", "neither"),
        ("-5", "neither"),
        ("1e9", "neither"),
        ("2023-13-14T22:13:20Z", "not a time"),
        ("2023-02-30T22:13:20Z", "not a time"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("0001-01-01T00:00:00+14:00", "before 1970"),
        ("1700000000000", "future"),
        ("9999-12-31T23:59:59Z", "future"),
        ("9" * 200, "neither"),
    ],
)
def test_bad_times(text: str, says: str) -> None:
    with pytest.raises(BadValueError, match=says):
        read_time(text, NOW)
