CREATE TABLE {kv} (namespace TEXT, name TEXT, version INTEGER NOT NULL, value TEXT NOT NULL, updated INTEGER NOT NULL,
  expires INTEGER, PRIMARY KEY (namespace, name)) STRICT;

CREATE TABLE {key_rate} (queue TEXT, task_key TEXT, full_at INTEGER NOT NULL, PRIMARY KEY (queue, task_key)) STRICT;

CREATE TABLE {unique_key} (id BLOB PRIMARY KEY, task BLOB NOT NULL, expires INTEGER NOT NULL, queue TEXT NOT NULL,
  scope TEXT NOT NULL, name TEXT NOT NULL) STRICT;

CREATE TABLE {attempt} (task BLOB, fence INTEGER, queue TEXT NOT NULL, attempt INTEGER NOT NULL, outcome TEXT NOT NULL,
  taken INTEGER NOT NULL, ended INTEGER NOT NULL, worker TEXT NOT NULL, error BLOB, PRIMARY KEY (task, fence)) STRICT;

CREATE INDEX {attempt}_ended ON {attempt} (queue, ended);

-- Released steps never change, so this star always means the columns of step 1.
CREATE TABLE {archive} AS SELECT *, 0 AS archived FROM {task} WHERE false;

CREATE UNIQUE INDEX {archive}_id ON {archive} (id, fence);

CREATE TABLE {step} (task BLOB PRIMARY KEY, workflow BLOB NOT NULL, name TEXT NOT NULL, queue TEXT NOT NULL,
  needs INTEGER NOT NULL, dependents INTEGER NOT NULL, run_at INTEGER, delay INTEGER NOT NULL) STRICT;

CREATE INDEX {step}_workflow ON {step} (workflow, task);

CREATE TABLE {need} (parent BLOB, child BLOB, on_failure INTEGER NOT NULL, met INTEGER NOT NULL,
  PRIMARY KEY (parent, child)) STRICT;

CREATE INDEX {need}_child ON {need} (child, parent);

CREATE TABLE {audit} (id BLOB, part INTEGER, happened INTEGER NOT NULL, who TEXT NOT NULL, program TEXT NOT NULL,
  address TEXT NOT NULL, request TEXT NOT NULL, action TEXT NOT NULL, queue TEXT NOT NULL, subject TEXT NOT NULL,
  task BLOB, task_filter TEXT NOT NULL, reason TEXT NOT NULL, old_value TEXT NOT NULL, new_value TEXT NOT NULL,
  changed INTEGER NOT NULL, PRIMARY KEY (id, part)) STRICT;
