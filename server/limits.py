"""How much one request may ask for. All of it is counted before anything is executed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
)

from resolvers.errors import LimitExceeded

# Counts tokens as graphql-core does, but for a spread and its name, which count as one. Where a text is no GraphQL,
# the parser says so.
_TOKEN = re.compile(r'"""(?:\\"""|[^"]|"(?!""))*"""|"(?:\\.|[^"\\\n\r])*"|#[^\n\r]*|[_A-Za-z0-9.+-]+|[!$&():=@\[\]{|}]')
_OPENING = frozenset("{[(")
_CLOSING = frozenset("}])")


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds, far above what a page needs (120 tokens, 7 deep) and far below what hurts.

    Fragments count as often as they are spread. `repeats` is how many selections ask again for a field that stands in
    the same selection set already.
    """

    body_bytes: int = 65_536
    body_seconds: float = 10.0
    tokens: int = 1_500
    brackets: int = 50
    depth: int = 15
    aliases: int = 60
    repeats: int = 60
    fields: int = 1_000
    operations_a_socket: int = 10
    init_seconds: float = 10.0
    connections_a_user: int = 20
    keep_alive_seconds: float = 15.0

    def count_tokens(self, text: str) -> int:
        """How many tokens a document has.

        Raises:
            LimitExceeded: it has too many, or nests too deep for a parser.
        """
        tokens = _TOKEN.findall(text)
        if len(tokens) > self.tokens:
            raise LimitExceeded("tokens", self.tokens, len(tokens))
        nested = deepest = 0
        for token in tokens:
            if token in _OPENING:
                nested += 1
                deepest = max(deepest, nested)
            elif token in _CLOSING:
                nested -= 1
        if deepest > self.brackets:
            raise LimitExceeded("nested brackets", self.brackets, deepest)
        return len(tokens)

    def check(self, document: DocumentNode) -> None:
        """Raises LimitExceeded where an operation asks for too much, its fragments counted where they are spread."""
        measure = _Measure(self, document)
        for definition in document.definitions:
            if isinstance(definition, OperationDefinitionNode):
                depth = measure.size(definition.selection_set).depth
                if depth > self.depth:
                    raise LimitExceeded("depth", self.depth, depth)


@dataclass(slots=True)
class _Size:
    """What a selection set comes to. `names` are the response names at its top, with how often each is asked for."""

    depth: int = 0
    aliases: int = 0
    fields: int = 0
    inner_repeats: int = 0
    names: dict[str, int] = field(default_factory=dict)
    named: int = 0

    @property
    def repeats(self) -> int:
        """Repetitions at the top and below. A fragment shares its top with the selection set it is spread into."""
        return self.inner_repeats + self.named - len(self.names)

    def name(self, name: str, times: int = 1) -> None:
        """Ask for a response name at the top."""
        self.names[name] = self.names.get(name, 0) + times
        self.named += times


class _Measure:
    """Measures the selection sets of one document, each fragment once, and stops where a count exceeds its limit."""

    def __init__(self, limits: Limits, document: DocumentNode) -> None:
        self.limits = limits
        self.fragments = {
            definition.name.value: definition
            for definition in document.definitions
            if isinstance(definition, FragmentDefinitionNode)
        }
        self.known: dict[str, _Size] = {}

    def size(self, selection_set: SelectionSetNode) -> _Size:
        """The size of a selection set with all that it spreads."""
        size = _Size()
        for selection in selection_set.selections:
            if isinstance(selection, FieldNode):
                self._add_field(size, selection)
            elif isinstance(selection, FragmentSpreadNode):
                self._add_spread(size, self._fragment(selection.name.value))
            elif isinstance(selection, InlineFragmentNode):
                self._add_spread(size, self.size(selection.selection_set))
            self._refuse(size)
        return size

    def _add_field(self, size: _Size, node: FieldNode) -> None:
        inner = self.size(node.selection_set) if node.selection_set else _Size()
        size.depth = max(size.depth, inner.depth + 1)
        size.aliases += inner.aliases + (node.alias is not None)
        size.fields += inner.fields + 1
        size.inner_repeats += inner.repeats
        size.name((node.alias or node.name).value)

    def _add_spread(self, size: _Size, spread: _Size) -> None:
        size.depth = max(size.depth, spread.depth)
        size.aliases += spread.aliases
        size.fields += spread.fields
        size.inner_repeats += spread.inner_repeats
        for name, times in spread.names.items():
            size.name(name, times)

    def _fragment(self, name: str) -> _Size:
        if name not in self.known:
            self.known[name] = _Size()  # a fragment within itself counts as nothing here: validation refuses it
            if (fragment := self.fragments.get(name)) is not None:
                self.known[name] = self.size(fragment.selection_set)
        return self.known[name]

    def _refuse(self, size: _Size) -> None:
        limits = self.limits
        for what, limit, actual in (
            ("aliases", limits.aliases, size.aliases),
            ("repeated fields", limits.repeats, size.repeats),
            ("fields", limits.fields, size.fields),
        ):
            if actual > limit:
                raise LimitExceeded(what, limit, actual)
