"""A shop: an outbox, its consumer beside the server, and the dashboard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from fastapi import FastAPI
from models import Order, Spent
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from pgqpy import Event
from pgqpy.dashboard import dashboard
from pgqpy.sqlalchemy import AsyncSQLAlchemyConsumer, aemit

engine = create_async_engine("postgresql+asyncpg://")
sessions = async_sessionmaker(engine)


class Revenue(AsyncSQLAlchemyConsumer):
    """Adds up what each customer has spent: each order once."""

    queue, name = "orders", "revenue"

    async def process_event(self, event: Event, session: AsyncSession) -> None:
        """Add one order."""
        spent = await session.get(Spent, event.extra1)
        if spent is None:
            spent = Spent(customer=event.extra1, total=Decimal(0))
            session.add(spent)
        spent.total += Decimal(event.json()["total"])


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Run the consumer while the server runs."""
    async with Revenue().running():
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)
app.mount("/queues", dashboard("", access=lambda _request: "viewer"))


class NewOrder(BaseModel):
    """What a customer sends."""

    customer: str
    total: Decimal


@app.post("/orders", status_code=201)
async def place(new: NewOrder) -> int:
    """Store the order and its event; the answer is sent after the commit."""
    async with sessions.begin() as session:
        session.add(Order(customer=new.customer, total=new.total))
        return await aemit(session, "orders", "placed", new, key=new.customer)


@app.get("/spent/{customer}")
async def spent(customer: str) -> Decimal:
    """Return what a customer has spent."""
    async with sessions() as session:
        found = await session.get(Spent, customer)
    return found.total if found else Decimal(0)
