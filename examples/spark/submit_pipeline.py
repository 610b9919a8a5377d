"""The pipeline for spark-submit: spark-submit submit_pipeline.py --queue orders --to s3a://lake/orders."""

from pgqpy.spark.pipeline import main

main()
