-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated.

CREATE DATABASE IF NOT EXISTS {schema};

CREATE TABLE IF NOT EXISTS {migration} (
  version INT PRIMARY KEY, title VARCHAR(200) NOT NULL, compatible INT NOT NULL, applied BIGINT NOT NULL
) ENGINE = InnoDB;
