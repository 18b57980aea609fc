-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated. The
-- default is for a SQLite before 3.42 that runs these statements: it has no unixepoch('subsec'), which is null then.
CREATE TABLE IF NOT EXISTS {migration} (
  version INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  compatible INTEGER NOT NULL,
  applied INTEGER NOT NULL ON CONFLICT REPLACE DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000)) STRICT;
