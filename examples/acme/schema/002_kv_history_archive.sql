CREATE TABLE {kv} (namespace TEXT, name TEXT, version INTEGER NOT NULL, value TEXT NOT NULL, updated INTEGER NOT NULL,
  expires INTEGER, PRIMARY KEY (namespace, name)) STRICT;

CREATE TABLE {unique_key} (id BLOB PRIMARY KEY, task BLOB NOT NULL, expires INTEGER NOT NULL, queue TEXT NOT NULL,
  scope TEXT NOT NULL, name TEXT NOT NULL) STRICT;

CREATE TABLE {attempt} (task BLOB, fence INTEGER, queue TEXT NOT NULL, attempt INTEGER NOT NULL, outcome TEXT NOT NULL,
  taken INTEGER NOT NULL, ended INTEGER NOT NULL, worker TEXT NOT NULL, error BLOB, PRIMARY KEY (task, fence)) STRICT;

CREATE INDEX {attempt}_ended ON {attempt} (queue, ended);

-- Released steps never change, so this star always means the columns of step 1.
CREATE TABLE {archive} AS SELECT *, 0 AS archived FROM {task} WHERE false;

CREATE UNIQUE INDEX {archive}_id ON {archive} (id);

CREATE TABLE {graph_task} (task BLOB PRIMARY KEY, graph BLOB NOT NULL, name TEXT NOT NULL, queue TEXT NOT NULL,
  needs INTEGER NOT NULL, dependents INTEGER NOT NULL, run_at INTEGER, delay INTEGER NOT NULL) STRICT;

CREATE INDEX {graph_task}_graph ON {graph_task} (graph, task);

CREATE TABLE {graph_need} (parent BLOB, child BLOB, on_failure INTEGER NOT NULL, met INTEGER NOT NULL,
  PRIMARY KEY (parent, child)) STRICT;

CREATE INDEX {graph_need}_child ON {graph_need} (child, parent);
