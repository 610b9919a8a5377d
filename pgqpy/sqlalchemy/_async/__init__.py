"""The consumer for asyncio."""
