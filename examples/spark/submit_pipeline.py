"""The pipeline for spark-submit: spark-submit submit_pipeline.py --queue orders --to s3a://lake/orders."""

import sys

from pgqpy.cli import main

main(["pipeline", "run", *sys.argv[1:]])
