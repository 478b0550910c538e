"""GraphQL documents: parsed, measured and validated once, then held for those who send them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphql import (
    ASTValidationRule,
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    GraphQLSyntaxError,
    NoSchemaIntrospectionCustomRule,
    OperationDefinitionNode,
    parse,
    specified_rules,
    validate,
)
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule

from resolvers.errors import BadInput, HeadcountError
from server.caches import SegmentedCache
from server.errors import Refused, document_errors
from server.limits import Limits

#: About 550 bytes a token: at most 27 MB a segment of the cache, some 400 documents of a page's size.
_CACHED_TOKENS = 50_000
_CHARACTERS_A_TOKEN = 500  # text that is no token (comments, spaces) is held too, so it weighs something
_MAX_ERRORS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A document that may be executed. Two are equal where they are one."""

    node: DocumentNode
    operations: dict[str | None, OperationDefinitionNode]

    def operation(self, name: str | None) -> OperationDefinitionNode:
        """The operation to run.

        Raises:
            Refused: no operation has this name, or none is given where there are several.
        """
        if name is not None and (found := self.operations.get(name)) is not None:
            return found
        if name is None and len(self.operations) == 1:
            return next(iter(self.operations.values()))
        if name is not None:
            raise Refused.because(BadInput("operationName", "must be the name of an operation of the document"))
        raise Refused.because(BadInput("operationName", f"must name one of {len(self.operations)} operations"))


class Documents:
    """Makes documents out of texts. What is refused is never held.

    Args:
        schema: what documents are validated against.
        limits: what is refused before it is parsed, or before it is validated.
        introspection: whether a document may ask for the schema.
        suggestions: whether errors say "did you mean", which tells the schema to who guesses.
    """

    def __init__(self, schema: GraphQLSchema, limits: Limits, *, introspection: bool, suggestions: bool) -> None:
        self.schema = schema
        self.limits = limits
        self.suggestions = suggestions
        rules: list[type[ASTValidationRule]] = [*specified_rules, MaybeNullValidationRule, OneOfInputValidationRule]
        if not introspection:
            rules.append(NoSchemaIntrospectionCustomRule)
        self._rules = tuple(rules)
        self._held: SegmentedCache[str, Document] = SegmentedCache(_CACHED_TOKENS)
        self.prepared = 0

    @property
    def held(self) -> int:
        """How many documents are held."""
        return len(self._held)

    def prepare(self, text: str) -> Document:
        """The document of a text.

        Raises:
            Refused: it exceeds a limit, is no GraphQL, or does not fit the schema.
        """
        document = self._held.get(text)
        if document is None:
            document, tokens = self._make(text)
            self._held.put(text, document, tokens + len(text) // _CHARACTERS_A_TOKEN)
        return document

    def _make(self, text: str) -> tuple[Document, int]:
        self.prepared += 1
        try:
            tokens = self.limits.count_tokens(text)
            # A spread counts one token less here than there, so the parser's own limit is never met first.
            node = parse(text, max_lexical_tokens=2 * self.limits.tokens)
            self.limits.check(node)
        except HeadcountError as error:
            raise Refused.because(error) from None
        except GraphQLSyntaxError as error:
            raise Refused(document_errors([error])) from None
        errors: list[GraphQLError] = validate(
            self.schema, node, self._rules, max_errors=_MAX_ERRORS, hide_suggestions=not self.suggestions
        )
        if errors:
            raise Refused(document_errors(errors[:_MAX_ERRORS]))
        return Document(node, _operations(node)), tokens


def _operations(node: DocumentNode) -> dict[str | None, Any]:
    return {
        definition.name.value if definition.name else None: definition
        for definition in node.definitions
        if isinstance(definition, OperationDefinitionNode)
    }
