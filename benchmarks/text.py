"""Notes of a section, written as one text."""

from __future__ import annotations


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each as one line."""
    return [" ".join(part.split()) for part in text.split("\n\n")]
