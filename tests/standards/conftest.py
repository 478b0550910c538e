"""The application and the small schema, as other rooms' tests have them."""

from __future__ import annotations

from tests.app.conftest import headcount, truth_settings  # noqa: F401  # a fixture is found by its name here
from tests.served import serve  # noqa: F401  # likewise
from tests.server.conftest import edge, make_edge  # noqa: F401  # likewise
