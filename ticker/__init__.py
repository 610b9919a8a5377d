"""The ticker daemon."""
