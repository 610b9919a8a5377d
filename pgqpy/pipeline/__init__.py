"""The pipeline: Spark writes the events of a queue to files. `pip install "pgqpy[spark]"`."""

from pgqpy.pipeline.options import PipelineOptions
from pgqpy.pipeline.run import run_pipeline

__all__ = ["PipelineOptions", "run_pipeline"]
