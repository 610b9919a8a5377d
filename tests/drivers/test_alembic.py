"""Operations of Alembic, in migrations that run as `alembic upgrade` and `downgrade` do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config

import pgqpy
from tests.drivers.conftest import url

if TYPE_CHECKING:
    from pathlib import Path

ENV = """
import sqlalchemy
from alembic import context
import pgqpy.sqlalchemy.alembic

place = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=place, literal_binds=True)
    context.run_migrations()
else:
    engine = sqlalchemy.create_engine(place, poolclass=sqlalchemy.pool.NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection)
        with context.begin_transaction():
            context.run_migrations()
"""
FIRST = """
from alembic import op
revision, down_revision = "one", None

def upgrade():
    op.execute("create table before (id int)")
    op.pgq_install()
    op.execute("create table after (id int)")

def downgrade():
    op.pgq_uninstall()
"""
SECOND = """
from alembic import op
revision, down_revision = "two", "one"

def upgrade():
    op.pgq_create_queue("orders", consumers=["billing", "mails"])
    op.execute({statement!r})

def downgrade():
    op.pgq_drop_queue("orders", consumers=["billing", "mails"])
"""


class Migrations:
    """Two migrations in a folder, of which the second also runs a statement."""

    def __init__(self, folder: Path, dsn: str, driver: str, statement: str) -> None:
        (folder / "versions").mkdir()
        (folder / "env.py").write_text(ENV)
        (folder / "versions" / "one.py").write_text(FIRST)
        (folder / "versions" / "two.py").write_text(SECOND.format(statement=statement))
        self.config = Config()
        self.config.set_main_option("script_location", str(folder))
        self.config.set_main_option("path_separator", "os")
        self.use(dsn, driver)

    def use(self, dsn: str, driver: str) -> None:
        place = url(dsn, driver).render_as_string(hide_password=False)
        self.config.set_main_option("sqlalchemy.url", place.replace("%", "%%"))

    def upgrade(self, revision: str = "head", **options: Any) -> None:
        command.upgrade(self.config, revision, **options)

    def downgrade(self, revision: str) -> None:
        command.downgrade(self.config, revision)


@pytest.fixture
def migrations(tmp_path: Path, empty_dsn: str) -> Migrations:
    return Migrations(tmp_path, empty_dsn, "psycopg", "select 1")


def test_migrations_install_the_schema_and_create_queues_and_undo_both(
    migrations: Migrations, empty_dsn: str
) -> None:
    migrations.upgrade()
    migrations.upgrade()
    with pgqpy.connect(empty_dsn) as client:
        found = {each.consumer_name for each in client.get_consumer_info("orders")}
        assert found == {"billing", "mails"}
    migrations.downgrade("one")
    with pgqpy.connect(empty_dsn) as client:
        assert client.get_queue_info() == []
    migrations.downgrade("base")
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("select to_regnamespace('pgq')").fetchone() == (None,)
        assert connection.execute("select 1 from before, after").fetchall() == []


def test_a_queue_belongs_to_the_migrations_transaction(tmp_path: Path, empty_dsn: str) -> None:
    migrations = Migrations(tmp_path, empty_dsn, "psycopg", "select no_such_column")
    migrations.upgrade("one")
    with pytest.raises(Exception, match="no_such_column"):
        migrations.upgrade()
    with pgqpy.connect(empty_dsn) as client:
        assert client.get_queue_info() == []


def test_queues_are_created_over_other_drivers_and_the_installer_names_its_own(
    tmp_path: Path, empty_dsn: str, dsn: str
) -> None:
    migrations = Migrations(tmp_path, empty_dsn, "psycopg2", "select 1")
    with pytest.raises(pgqpy.SchemaRefused, match=r"postgresql\+psycopg://, or run pgqpy schema"):
        migrations.upgrade()
    migrations.use(dsn, "psycopg2")
    command.stamp(migrations.config, "one")
    migrations.upgrade()
    with pgqpy.connect(dsn) as client:
        assert [each.queue_name for each in client.get_queue_info()] == ["orders"]


def test_a_script_without_a_connection_is_refused(migrations: Migrations) -> None:
    with pytest.raises(pgqpy.SchemaRefused, match="leave --sql out, or see pgqpy schema print"):
        migrations.upgrade(sql=True)
