"""Clients over one PostgreSQL connection."""
