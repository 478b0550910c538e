"""The bounds and rules against the schema that is served."""

from __future__ import annotations

import pytest
from graphql import (
    GraphQLObjectType,
    GraphQLSchema,
    get_introspection_query,
    get_named_type,
    is_required_argument,
)

from schema import build_schema
from server.documents import Documents
from server.errors import Refused
from server.limits import Limits


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents(build_schema()._schema, Limits(), introspection=True, suggestions=False)


def _everything(schema: GraphQLSchema, type_: GraphQLObjectType, depth: int) -> str:
    """A selection of every field that needs no argument, and of `first` where it is one."""
    parts = []
    for name, field in type_.fields.items():
        if any(is_required_argument(argument) for argument in field.args.values()):
            continue
        inner = get_named_type(field.type)
        if isinstance(inner, GraphQLObjectType):
            if depth > 0:
                parts.append(f"{name} {_everything(schema, inner, depth - 1)}")
        else:
            parts.append(name)
    return "{" + " ".join(parts) + "}"


def test_a_page_of_games_with_every_field_there_is_passes(documents: Documents) -> None:
    schema = documents.schema
    game, viewer = schema.type_map["Game"], schema.type_map["Viewer"]
    assert isinstance(game, GraphQLObjectType)
    assert isinstance(viewer, GraphQLObjectType)
    query = (
        "query Everything($ids: [ID!]!) {"
        f"games(ids: $ids) {_everything(schema, game, 3)} viewer {_everything(schema, viewer, 3)} }}"
    )
    document = documents.prepare(query)
    assert document.operation(None).name is not None
    assert documents.prepare(query) is document


def test_the_editor_s_introspection_passes(documents: Documents) -> None:
    documents.prepare(
        get_introspection_query(
            specified_by_url=True,
            directive_is_repeatable=True,
            schema_description=True,
            input_value_deprecation=True,
        )
    )


def test_a_wrong_literal_is_a_validation_error(documents: Documents) -> None:
    with pytest.raises(Refused) as refused:
        documents.prepare("{ games(ids: [true]) { id } }")
    assert [error["extensions"]["code"] for error in refused.value.errors] == ["GRAPHQL_VALIDATION_FAILED"]
