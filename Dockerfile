# An example, not built or run where it was written. The sandbox needs user namespaces inside the container.
FROM python:3.11-slim
RUN useradd --create-home skyt
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt "$(grep '^torch==' constraints.txt)" \
 && pip install --no-cache-dir --constraint constraints.txt '.[serve]'
USER skyt
EXPOSE 8080
# Others can reach 0.0.0.0, so the service starts only when the database has an API key.
CMD ["homeostat", "code", "serve", "--host", "0.0.0.0", "--config", "/etc/skyt/serve.yaml"]
