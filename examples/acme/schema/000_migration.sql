CREATE TABLE IF NOT EXISTS {migration} (version INTEGER PRIMARY KEY, title TEXT, compatible INTEGER, applied INTEGER);
