"""What tests of an application see of its events."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
from django.db import connection
from django.test import TestCase, TransactionTestCase
from store.consumers import Totals
from store.models import Total

import pgqpy
from pgqpy.django import emit
from pgqpy.django.testing import EventTestMixin, emitted
from pgqpy.errors import QueueNotFound

pytestmark = pytest.mark.usefixtures("dsn")


class Uncommitted(EventTestMixin, TestCase):
    __test__ = False

    @classmethod
    def setUpTestData(cls) -> None:
        emit("orders", "earlier")

    def test_first(self) -> None:
        self.assertEmits("orders", "placed", 0)
        emit("orders", "placed", {"total": "1.00"}, key="ann")
        emit("orders", "placed", delay=60)
        first, second = self.assertEmits("orders", "placed", 2)
        self.assertEqual((first.json(), first.extra1), ({"total": "1.00"}, "ann"))
        self.assertEqual(second.data, None)

    test_second = test_first

    def test_wrong(self) -> None:
        emit("orders", "placed")
        told = r"1 in place of 2 events of type 'placed' in queue 'orders'; it has: earlier, placed"
        with self.assertRaisesRegex(AssertionError, told):
            self.assertEmits("orders", "placed", 2)
        with self.assertRaises(QueueNotFound):
            emitted("nothing")


class Committed(EventTestMixin, TransactionTestCase):
    __test__ = False

    def test_first(self) -> None:
        self.assertEqual(emitted("orders"), [])
        with connection.cursor() as cursor:
            cursor.execute("select from pgq.retry_queue union all select from pgq.dead_event")
            self.assertEqual(cursor.rowcount, 0)
        emit("orders", "placed", {"total": "1.00"}, key="ann", dedup_key="ann", dedup_for=60)
        emit("orders", "later", delay=3600)
        emit("orders", "bad", {"total": "none"}, key="ann")
        done = Totals(max_retries=1, backoff=(0, 0)).drain(retries=True)
        self.assertEqual((done.handled, done.retried, done.dead), (1, 1, 1))
        self.assertEqual(Total.objects.get().orders, 1)
        emit("orders", "bad", {"total": "none"}, key="ann")
        self.assertEqual(Totals(backoff=(60, 60)).drain().retried, 1)
        self.assertEqual(len(emitted("orders")), 4)

    test_second = test_first


def run(case: Any) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert [*result.errors, *result.failures] == []
    return result


def test_a_test_case_sees_what_it_has_not_committed(client: pgqpy.Client) -> None:
    assert run(Uncommitted).testsRun == 3
    assert client.connection.execute("select from pgq.event_1").fetchall() == []


def test_a_transaction_test_case_begins_with_empty_queues(client: pgqpy.Client) -> None:
    emit("orders", "earlier", {"total": "1.00"}, key="ann")
    assert run(Committed).testsRun == 2
