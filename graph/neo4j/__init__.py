"""The truth in Neo4j, for as many machines as write it: an adapter of `graph.social_graph.SocialGraph`."""

from graph.neo4j.adapter import START_SECONDS, Neo4jGraph

__all__ = ["START_SECONDS", "Neo4jGraph"]
