"""`python -m schema`: print the contract as SDL."""

from __future__ import annotations

import sys

from schema import build_schema

sys.stdout.write(build_schema().as_str() + "\n")
