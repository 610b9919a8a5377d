"""Every SQL call of pgqpy as data: text, parameters and how to decode the rows."""
