"""The pipeline: Spark writes events of a queue to files or tables (extra `spark`)."""

from pgqpy.pipeline.options import PipelineOptions
from pgqpy.pipeline.run import clean_tables, run_pipeline

__all__ = ["PipelineOptions", "clean_tables", "run_pipeline"]
