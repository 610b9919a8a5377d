"""Take the pictures of the dashboard in docs/images from a made-up shop: `make screenshots`.

Numbers differ a little from run to run, as times do. It needs Debian's package chromium.
"""

from __future__ import annotations

import io
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import psycopg
from PIL import Image
from playwright.sync_api import TimeoutError as NotYet
from playwright.sync_api import sync_playwright

import pgqpy
from pgqpy.dashboard.serve import Settings, serve
from pgqpy.install import install
from pgqpy.testing import embedded_server
from pgqpy.watch import Watcher
from tests.dashboard.shop import fill, pulse

if TYPE_CHECKING:
    from pgqpy import Client

CHROMIUM = "/usr/bin/chromium"
FOLDER = Path(__file__).parent.parent / "docs" / "images"
WIDTH, SCALE = 1080, 1.5  # the width in CSS pixels, and pixels of the picture for each
LARGEST = 150_000  # bytes
MOMENT = 400  # milliseconds between two batches of events
MOMENTS = 100
CHANGED = "shown => document.querySelector('.status').textContent != shown"


class Picture(NamedTuple):
    """A picture: its name, its page, and how many CSS pixels of the page it shows."""

    name: str
    path: str
    height: int
    scheme: str = "light"


PICTURES = (
    Picture("overview", "/", 960),
    Picture("overview-dark", "/", 960, "dark"),
    Picture("queue", "/queue?queue=orders", 970),
    Picture("consumer", "/consumer?queue=orders&consumer=search", 860),
    Picture("dead", "/dead?queue=orders&consumer=billing", 820),
)


def main() -> None:
    """Start a server, fill it, open each page, and write its picture."""
    FOLDER.mkdir(exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(embedded_server())
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute("create database shop")
        dsn = server.dsn("shop")

        def connect(**options: Any) -> psycopg.Connection[Any]:
            return stack.enter_context(psycopg.connect(dsn, autocommit=True, **options))

        install(connect())
        client = stack.enter_context(pgqpy.connect(dsn))
        fill(client, connect)
        url = _serve(dsn)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        stack.callback(browser.close)
        for picture in PICTURES:
            _take(browser, client, url, picture)


def _serve(dsn: str) -> str:
    """Serve the dashboard in a thread that ends with this process; return its URL."""
    addresses: Queue[str] = Queue()
    patch.object(Watcher, "pause", 1.0).start()  # seconds; as on a machine that has time
    serving = Thread(target=serve, args=(dsn, Settings(port=0), addresses.put), daemon=True)
    serving.start()
    return addresses.get(timeout=30).rstrip("/")


def _take(browser: Any, client: Client, url: str, picture: Picture) -> None:
    page = browser.new_page(
        viewport={"width": WIDTH, "height": picture.height},
        device_scale_factor=SCALE,
        color_scheme=picture.scheme,
        reduced_motion="reduce",
    )
    page.goto(url + picture.path)
    for summary in page.locator("summary").all()[:1]:
        summary.click()
    if page.locator("main[hx-sse\\:connect]").count():
        _follow(page, client)
    taken = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    path = FOLDER / f"dashboard-{picture.name}.png"
    kind = Image.Quantize.MAXCOVERAGE  # keeps colours of which there is little
    taken.convert("RGB").quantize(256, kind, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"screenshots: {path.name}, {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"screenshots: {path.name} has more than {LARGEST:,} bytes")


def _follow(page: Any, client: Client) -> None:
    """Let the shop go on until the page shows a later look, with rates."""
    shown = page.locator(".status").text_content()
    for _ in range(MOMENTS):
        pulse(client)
        with suppress(NotYet):
            page.wait_for_function(CHANGED, arg=shown, timeout=MOMENT)
            return
    raise SystemExit("screenshots: the page does not follow the database")


if __name__ == "__main__":
    main()
