# pgqpy's commands, and the demo of docker-compose.yml in /demo. `--target spark` adds Spark and Java.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml pgqpy_pytest.py README.md LICENSE ./
COPY schema schema
COPY ticker ticker
COPY consumers consumers
COPY pgqpy pgqpy
RUN python -m venv /opt/pgqpy && /opt/pgqpy/bin/pip install --no-cache-dir ".[dashboard]"

FROM build AS build-spark
RUN /opt/pgqpy/bin/pip install --no-cache-dir ".[spark]"

FROM python:3.12-slim AS base
# /state is for what a container notes of itself: it may be lost with it.
RUN useradd --system --uid 10001 --no-create-home pgqpy && install --directory --owner=pgqpy /state
COPY tools/docker-entrypoint.sh /usr/local/bin/pgqpy-entrypoint
COPY examples/compose /demo
ENV PATH=/opt/pgqpy/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 ALIVE_FILE=/state/alive
WORKDIR /demo
ENTRYPOINT ["pgqpy-entrypoint"]
CMD ["pgqpy", "--help"]

FROM base AS spark
# A volume that is mounted on /lake is at first a copy of it: it belongs to the same user.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner=pgqpy /lake
COPY --from=build-spark /opt/pgqpy /opt/pgqpy
ENV PYSPARK_PYTHON=python SPARK_WORKER_DIR=/state/spark
USER pgqpy

FROM base
COPY --from=build /opt/pgqpy /opt/pgqpy
USER pgqpy
