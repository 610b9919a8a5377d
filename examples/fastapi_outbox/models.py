"""The tables of the shop; run it once to create them."""

from decimal import Decimal

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables."""


class Order(Base):
    """An order: what the application writes."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    total: Mapped[Decimal]


class Spent(Base):
    """What a customer has spent: the read model."""

    __tablename__ = "spent"
    customer: Mapped[str] = mapped_column(primary_key=True)
    total: Mapped[Decimal]


if __name__ == "__main__":
    engine = create_engine("postgresql+psycopg://")
    Base.metadata.create_all(engine)
    engine.dispose()
