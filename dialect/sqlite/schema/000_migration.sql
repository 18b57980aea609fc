-- The table of applied migrations. dbq runs this step before every migration, so its statements can be repeated.

CREATE TABLE IF NOT EXISTS {migration} (
  version INTEGER PRIMARY KEY, title TEXT NOT NULL, compatible INTEGER NOT NULL, applied INTEGER NOT NULL) STRICT;
