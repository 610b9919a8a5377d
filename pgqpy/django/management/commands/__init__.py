"""Commands of manage.py: the name of the module is that of the command."""
