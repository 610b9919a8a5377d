#!/bin/sh
# The Python that Spark starts in the tests: $SPARK_TESTS_PYTHON, without Spark's archives.
#
# Spark puts pyspark.zip and one of its jars first on PYTHONPATH. The archive holds sources only, so
# each process would compile them again and read the jar's list of 6,000 files. The installed
# package is the same code, compiled.
rest=${PYTHONPATH##*.jar}
PYTHONPATH=${rest#:} exec "$SPARK_TESTS_PYTHON" "$@"
