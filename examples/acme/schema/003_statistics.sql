CREATE TABLE {stat} (queue TEXT, period INTEGER, since INTEGER, source TEXT, enqueued INTEGER NOT NULL,
  started INTEGER NOT NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL, poisoned INTEGER NOT NULL,
  released INTEGER NOT NULL, created INTEGER NOT NULL, processing INTEGER NOT NULL, error INTEGER NOT NULL,
  poison INTEGER NOT NULL, due INTEGER NOT NULL, parked INTEGER NOT NULL, oldest_due INTEGER NOT NULL,
  latency TEXT NOT NULL, run_time TEXT NOT NULL, PRIMARY KEY (period, queue, since, source)) STRICT, WITHOUT ROWID;

CREATE INDEX {stat}_since ON {stat} (period, since);
