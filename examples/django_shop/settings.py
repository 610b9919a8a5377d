"""Settings. libpq's variables say where the database is: PGHOST, PGDATABASE and so on."""

import os

SECRET_KEY = "an example"  # noqa: S105  # nothing is signed with it
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "urls"
INSTALLED_APPS = ["pgqpy.django", "store"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("PGDATABASE", "shop"),
        "ATOMIC_REQUESTS": True,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
