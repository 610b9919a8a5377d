# pgqpy's commands, and the demo of docker-compose.yml in /demo.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY schema schema
COPY ticker ticker
COPY consumers consumers
COPY pgqpy pgqpy
RUN python -m venv /opt/pgqpy && /opt/pgqpy/bin/pip install --no-cache-dir .

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home pgqpy
COPY --from=build /opt/pgqpy /opt/pgqpy
COPY tools/docker-entrypoint.sh /usr/local/bin/pgqpy-entrypoint
COPY examples/compose /demo
ENV PATH=/opt/pgqpy/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /demo
USER pgqpy
ENTRYPOINT ["pgqpy-entrypoint"]
CMD ["pgqpy", "--help"]
