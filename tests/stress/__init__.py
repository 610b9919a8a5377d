"""A storm over shared consumers: everything that can die does; a log shows what became of it."""
