# Headcount in one image: the web bundle, the wheel, and a slim image that runs as nobody in particular.
# Everything that is installed is locked with hashes (web/package-lock.json, requirements*.txt).

FROM node:22-slim AS web
WORKDIR /src/web
COPY web/package.json web/package-lock.json web/.npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY web/ ./
RUN npm run --silent build

FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements.txt requirements-dev.txt ./
# What runs, in an environment that is copied as it is; what builds the wheel, in one that stays behind.
RUN python -m venv /opt/headcount \
    && /opt/headcount/bin/pip install --require-hashes --only-binary :all: -r requirements.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes --only-binary :all: -r requirements-dev.txt
COPY . .
COPY --from=web /src/web/dist web/dist
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
    && /opt/headcount/bin/pip install --no-deps /tmp/wheel/headcount-*.whl

FROM python:3.13-slim
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin headcount \
    && install --directory --owner headcount --group headcount --mode 0700 /var/lib/headcount
COPY --from=build /opt/headcount /opt/headcount
ENV PATH=/opt/headcount/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HEADCOUNT_DATA_DIR=/var/lib/headcount
USER headcount
WORKDIR /var/lib/headcount
VOLUME /var/lib/headcount
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["headcount"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
