"""URLs that browsers send."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def split_url(url: str) -> SplitResult:
    """Split a URL into its parts; all are empty if it cannot be parsed, such as "http://["."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
