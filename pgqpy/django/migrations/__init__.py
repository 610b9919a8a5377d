"""Migrations that install and upgrade the schema pgq."""
