# The embedded broker as an image: docker build -t kafkaframes . && docker run -p 9092:9092 kafkaframes
# Kernels are compiled while the image is built; the image itself has no compiler. docs/deploying.md has a recipe for Testcontainers.
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc
WORKDIR /source
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
COPY tools/stub.py tools/
RUN python -m venv /opt/kafkaframes && /opt/kafkaframes/bin/pip install --no-cache-dir '.[compile]' \
 && KAFKAFRAMES_CACHE_DIR=/tmp/cache /opt/kafkaframes/bin/kafkaframes kernels pack /opt/kafkaframes/kernels \
 && /opt/kafkaframes/bin/pip uninstall --yes numba llvmlite

FROM python:3.13-slim
COPY --from=build /opt/kafkaframes /opt/kafkaframes
RUN useradd --uid 10001 --create-home kafkaframes && install -d -o kafkaframes /data
ENV PATH=/opt/kafkaframes/bin:$PATH KAFKAFRAMES_KERNELS=/opt/kafkaframes/kernels
USER kafkaframes
VOLUME /data
EXPOSE 9092
HEALTHCHECK --interval=10s --timeout=10s --start-period=20s CMD ["kafkaframes", "topics", "list", "-b", "localhost:9092"]
ENTRYPOINT ["kafkaframes", "broker", "--data-dir", "/data", "--set", "listeners=PLAINTEXT://0.0.0.0:9092"]
CMD ["--set", "advertised.listeners=PLAINTEXT://localhost:9092"]
