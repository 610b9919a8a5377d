"""Events and consumers of a Django project: extra `django`."""

try:
    import django  # noqa: F401  # a missing package is a sentence
except ModuleNotFoundError:
    from pgqpy.errors import MissingExtra

    raise MissingExtra('django is needed: pip install "pgqpy[django]"') from None

from pgqpy.django.consumer import Consumer
from pgqpy.django.database import emit
from pgqpy.django.operations import InstallQueue

__all__ = ["Consumer", "InstallQueue", "emit"]
