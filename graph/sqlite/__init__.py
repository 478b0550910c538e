"""The truth in one SQLite file: the adapter of `graph.social_graph.SocialGraph` that needs nothing installed."""

from graph.sqlite.adapter import SQLiteGraph

__all__ = ["SQLiteGraph"]
