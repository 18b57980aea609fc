-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated.

DO 'BEGIN IF to_regnamespace(''{schema}'') IS NULL THEN CREATE SCHEMA {schema}; END IF; END';

CREATE TABLE IF NOT EXISTS {migration} (
  version integer PRIMARY KEY, title text NOT NULL, compatible integer NOT NULL, applied bigint NOT NULL);
