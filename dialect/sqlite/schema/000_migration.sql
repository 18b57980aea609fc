-- The table of applied migrations. dbq runs this step before every migration, so each statement can run again.

CREATE TABLE IF NOT EXISTS {migration} (
  version INTEGER PRIMARY KEY, title TEXT NOT NULL, compatible INTEGER NOT NULL, applied INTEGER NOT NULL) STRICT;
