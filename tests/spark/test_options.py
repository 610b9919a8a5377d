"""Options: what they may be, and what is said if they are something else."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from pgqpy.errors import InvalidArgument
from pgqpy.spark.options import (
    Bound,
    Offset,
    batch_options,
    parse_offsets,
    read_options,
    stream_options,
)

STREAM = {"queue": "orders", "consumer": "lake"}
NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def test_a_stream_starts_at_its_subscription_unless_told_otherwise():
    options = stream_options(STREAM)
    assert (options.queue, options.consumer) == ("orders", "lake")
    assert options.start == Bound("subscription")
    assert options.fail_on_data_loss
    assert options[5:8] == (None, None, None)


def test_a_batch_reads_all_that_is_left_unless_told_otherwise():
    options = batch_options({"queue": "orders"})
    assert (options.start, options.end) == (Bound("earliest"), Bound("latest"))


def test_names_and_words_are_read_in_any_case():
    options = stream_options({"QUEUE": "q", "Consumer": "c", "STARTINGOFFSETS": "Latest"})
    assert options.start == Bound("latest", option="startingOffsets")


def test_load_may_name_the_queue():
    assert batch_options({"path": "orders"}).queue == "orders"


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        ("startingOffsets", "earliest", Bound("earliest")),
        ("startingOffsets", '{"a": 21, "b": 3}', Bound("ticks", {"a": 21, "b": 3})),
        ("startingOffsets", '{"a": {"queue_id": 3, "tick": 21}}', Bound("ticks", {"a": 21})),
        ("startingTimestamp", "1795262400000", Bound("time", time=NOON)),
        ("startingTimestamp", "2026-11-21T12:00:00Z", Bound("time", time=NOON)),
        ("startingTimestamp", "2026-11-21 13:00:00+01:00", Bound("time", time=NOON)),
    ],
)
def test_each_way_to_name_a_start_is_understood(name, value, bound):
    assert stream_options({**STREAM, name: value}).start == bound._replace(option=name)


def test_milliseconds_keep_their_fraction_of_a_second():
    start = batch_options({"queue": "q", "startingTimestamp": "1795262400123"}).start
    assert start is not None
    assert start.time == NOON + timedelta(milliseconds=123)


@pytest.mark.parametrize(
    ("options", "parameter", "words"),
    [
        ({"consumer": "lake"}, "queue", '.option("queue"'),
        ({"queue": "q"}, "consumer", "one for each query"),
        ({**STREAM, "dsn": "x", "service": "y"}, "dsn", "exclude each other"),
        ({**STREAM, "startingOfset": "latest"}, "startingofset", "did you mean startingOffsets?"),
        ({**STREAM, "maxOffsetsPerTrigger": "9"}, "maxoffsetspertrigger", "maxEventsPerTrigger"),
        ({**STREAM, "subscribe": "orders"}, "subscribe", "did you mean queue?"),
        ({**STREAM, "xyzzy": "1"}, "xyzzy", "there are dsn, service, queue"),
        ({**STREAM, "types": ""}, "types", "a list of types"),
        ({**STREAM, "types": "a,,b"}, "types", "a list of types"),
        ({**STREAM, "startingOffsets": "soon"}, "startingOffsets", '{"orders": 21}'),
        ({**STREAM, "startingOffsets": '{"orders": "21"}'}, "startingOffsets", '{"orders": 21}'),
        ({**STREAM, "startingOffsets": '{"orders": true}'}, "startingOffsets", '{"orders": 21}'),
        ({**STREAM, "startingOffsets": '{"orders": -1}'}, "startingOffsets", '{"orders": 21}'),
        ({**STREAM, "startingOffsets": '{"orders": {"0": 5}}'}, "startingOffsets", '"orders": 21'),
        (
            {**STREAM, "startingOffsets": f'{{"orders": {2**63}}}'},
            "startingOffsets",
            '{"orders": 21}',
        ),
        (
            {**STREAM, "startingTick": "3"},
            "startingtick",
            'you mean startingOffsets={"orders": 21}?',
        ),
        ({**STREAM, "endingTick": "5"}, "endingtick", 'you mean endingOffsets={"orders": 42}?'),
        ({**STREAM, "startingTimestamp": "yesterday"}, "startingTimestamp", "milliseconds"),
        ({**STREAM, "startingTimestamp": "2026-11-21T12:00:00"}, "startingTimestamp", "UTC"),
        ({**STREAM, "startingTimestamp": "9" * 30}, "startingTimestamp", "milliseconds"),
        (
            {**STREAM, "startingTimestamp": "1", "startingOffsets": "latest"},
            "startingOffsets",
            "exclude each other",
        ),
        ({**STREAM, "maxEventsPerTrigger": "many"}, "maxEventsPerTrigger", "number from 1"),
        ({**STREAM, "maxTicksPerTrigger": "0"}, "maxTicksPerTrigger", "number from 1"),
        ({**STREAM, "minPartitions": "1.5"}, "minPartitions", "number from 1 to 10000"),
        ({**STREAM, "failOnDataLoss": "maybe"}, "failOnDataLoss", "true or false"),
        ({**STREAM, "endingTimestamp": "5"}, "endingTimestamp", "availableNow"),
        ({**STREAM, "pushDownFilters": "true"}, "pushdownfilters", "did you mean types"),
    ],
)
def test_a_wrong_option_is_named_with_what_to_do(options, parameter, words):
    with pytest.raises(InvalidArgument) as caught:
        stream_options(options)
    assert caught.value.parameter == parameter
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"startingOffsets": "subscription"}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
        ({"endingOffsets": "{}"}, "endingOffsets"),
    ],
)
def test_a_batch_has_no_use_for_a_start_without_an_end(options, parameter):
    with pytest.raises(InvalidArgument) as caught:
        batch_options({"queue": "q", **options})
    assert caught.value.parameter == parameter


def test_what_spark_itself_hands_over_is_no_unknown_option():
    read_options({**STREAM, "checkpointLocation": "notes", "path": "x"})


def test_no_password_is_in_what_an_exception_or_a_plan_would_show():
    options = read_options({**STREAM, "dsn": "host=db password=geheim"})
    assert "geheim" not in repr(options)
    assert options.database.dsn.endswith("geheim")


def test_an_offset_survives_the_checkpoint():
    offset = Offset("lake", 3, 2**62, "2026-01-01T00:00:00.000000Z")
    assert parse_offsets({"orders": offset._asdict()}) == {3: offset}


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"0": 1},
        {"q": {"tick": 1}},
        {"q": {"consumer": "c", "queue_id": "x", "tick": 1, "time": ""}},
    ],
)
def test_the_offset_of_another_source_is_refused(written):
    with pytest.raises(InvalidArgument) as caught:
        parse_offsets(written)
    assert caught.value.parameter == "checkpointLocation"
