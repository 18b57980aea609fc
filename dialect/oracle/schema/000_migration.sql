-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated.

CREATE TABLE {migration} (
  version NUMBER(10) NOT NULL, title VARCHAR2(200 CHAR) NOT NULL,
  compatible NUMBER(10) NOT NULL, applied NUMBER(19) NOT NULL,
  CONSTRAINT {prefix}migr_pk PRIMARY KEY (version));
