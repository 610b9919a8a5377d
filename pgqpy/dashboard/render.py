"""Pages as HTML: the templates, and the format of values and URLs in them."""

from __future__ import annotations

from datetime import datetime, timezone
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from pgqpy import __version__
from pgqpy.texts import duration, escaped, noun, rate, size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request


def split_url(url: str) -> SplitResult:
    """Split a URL into its parts; all are empty if it cannot be parsed, such as "http://["."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


class Renderer:
    """Renders the templates of this package. All values in them are escaped."""

    def __init__(self, **common: Any) -> None:
        """Read the templates. `common` are values that all pages have."""
        self._common = common
        self._environment = Environment(
            loader=PackageLoader("pgqpy.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            age=duration, bytes=size, noun=noun, number=number, plain=plain, rate=rate, time=moment
        )
        self._environment.globals["version"] = __version__

    def page(self, request: Request, template: str, context: Mapping[str, Any]) -> str:
        """Return a whole page."""
        return self._render(request, template, "base.html", context)

    def part(self, request: Request, template: str, context: Mapping[str, Any]) -> str:
        """Return the part of a page that changes while somebody looks."""
        return self._render(request, template, "part.html", context)

    def response(
        self,
        request: Request,
        template: str,
        context: Mapping[str, Any],
        status: HTTPStatus = HTTPStatus.OK,
    ) -> HTMLResponse:
        """Return a whole page as response."""
        return HTMLResponse(self.page(request, template, context), status)

    def _render(
        self, request: Request, template: str, layout: str, context: Mapping[str, Any]
    ) -> str:
        root = str(request.scope.get("root_path", ""))
        asker = request.state.asker
        values = {
            **self._common,
            "asker": asker,
            "done": None,
            "link": linker(root),
            "layout": layout,
            "live": None,
            "now": datetime.now(timezone.utc),
            "snapshot": None,
            "path": request.url.path.removeprefix(root).removeprefix("/live"),
            **context,
        }
        return self._environment.get_template(template).render(values)


def linker(root: str) -> Callable[..., str]:
    """Return the function that makes the URL of a page: its path, and parameters that are set."""

    def link(path: str, **params: Any) -> str:
        known = {name: value for name, value in params.items() if value is not None}
        return f"{root}{path}" + (f"?{urlencode(known)}" if known else "")

    return link


def number(value: object) -> str:
    """Format a number with separators; ``-`` if it is unknown."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def moment(value: datetime | None) -> str:
    """Format a time, in UTC."""
    if value is None:
        return "-"
    return value.astimezone(timezone.utc).isoformat(" ", "seconds").replace("+00:00", " UTC")


def plain(value: object, keep: str = "") -> str:
    """Return text with escapes in place of characters that cannot be printed; ``-`` for None."""
    return "-" if value is None else escaped(str(value), keep)
