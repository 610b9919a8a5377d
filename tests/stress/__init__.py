"""A storm over shared consumers: everything that can die does, and a log shows what became of it."""
