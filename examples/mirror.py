"""Keeps all tables that the queue `shop` captures in another database."""

import os

from pgqpy import Mirror

source, target = os.environ["PGQPY_SOURCE"], os.environ["PGQPY_TARGET"]
Mirror(source, queue="shop", name="mirror", target=target).run()
