"""[Generated from _async/__init__.py by tools/unasync.py: edit that file, not this one.] The consumer for asyncio."""
