"""The pipeline: a queue's events as files, written by Spark. `pip install "pgqpy[spark]"`."""

from pgqpy.pipeline.options import PipelineOptions
from pgqpy.pipeline.run import run_pipeline

__all__ = ["PipelineOptions", "run_pipeline"]
