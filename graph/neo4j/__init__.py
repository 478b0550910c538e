"""The truth in Neo4j, for as many machines as write it: an adapter of `graph.social_graph.SocialGraph`."""

from graph.neo4j.adapter import Neo4jGraph

__all__ = ["Neo4jGraph"]
