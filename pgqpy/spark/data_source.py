"""The data source that Spark finds as `format("pgq")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pgqpy.spark.connections import connect
from pgqpy.spark.options import batch_options, read_options, refuse_overwrite, stream_options
from pgqpy.spark.sink.writers import BatchWriter, StreamWriter
from pgqpy.spark.source.columns import checked_schema, whole_schema
from pgqpy.spark.source.stream import BatchReader, StreamReader
from pgqpy.tick_ranges import find_queue

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class PgqDataSource(DataSource):
    """Makes the readers and writers of a queue."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "pgq"

    def schema(self) -> StructType:
        """Return the columns of an event.

        `load()` calls this unless the user gave a schema. A wrong option, an unreachable server or
        an unknown queue raises here, so that the error points to the line with `load()`. With a
        schema the same errors come when the query starts, as always for options that only a stream
        checks.
        """
        options = read_options(self.options)
        with connect(options.database, options.queue) as client:
            find_queue(client, options.queue)
        return whole_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of `spark.read`."""
        options = batch_options(self.options)
        return BatchReader(options, checked_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Make the reader of `spark.readStream`."""
        return StreamReader(stream_options(self.options), checked_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001  # as Spark calls it
        """Make the writer of `df.write`."""
        refuse_overwrite(overwrite=overwrite)
        return BatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802  # as Spark calls it
        """Make the writer of `df.writeStream`."""
        refuse_overwrite(overwrite=overwrite)
        return StreamWriter(self.options, schema)
