"""Run by alembic inside a connection and transaction that `skyt.serve.database.engine` opened and locked."""

from __future__ import annotations

from alembic import context

from skyt.serve.database.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
