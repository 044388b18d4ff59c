# Two stages: wheels are installed into a virtual environment, and only that and the source go into the image.
FROM python:3.13-slim AS build
WORKDIR /app
COPY requirements/base.txt requirements/base.txt
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/base.txt

FROM python:3.13-slim
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    BRIMLINE_DATA=/data
RUN useradd --system --create-home --uid 10001 brimline && install -d -o brimline /data
COPY --from=build /venv /venv
WORKDIR /app
COPY . .
# Collecting static files reads no database and signs nothing; the address is a placeholder.
RUN DATABASE_URL=postgresql:///none BRIMLINE_DATA=/app/build python manage.py collectstatic --noinput --verbosity 0 \
    && chown -R brimline /app/build
ENV BRIMLINE_STATIC=/app/build/static
USER brimline
EXPOSE 8000
CMD ["uvicorn", "webapp.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--no-access-log"]
