-- Key/value records shared by all clients, the history of attempts, and the archive.

CREATE TABLE {kv} (
  kind varchar(20) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  PRIMARY KEY (kind, name));

CREATE TABLE {attempt} (
  task uuid NOT NULL,
  fence bigint NOT NULL,
  started bigint NOT NULL,
  ended bigint NOT NULL,
  attempt smallint NOT NULL,
  outcome varchar(20) NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  worker varchar(200) NOT NULL,
  error bytea,
  PRIMARY KEY (task, fence));

CREATE INDEX {prefix}attempt_ended ON {attempt} (queue, ended);

CREATE VIEW {attempts} AS
SELECT task, attempt, outcome, to_timestamp(started / 1e6) AS started, to_timestamp(ended / 1e6) AS ended,
  worker, queue, fence, encode(error, 'escape') AS error
  FROM {attempt}
UNION ALL SELECT id, attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  to_timestamp(taken / 1e6), to_timestamp(updated / 1e6), regexp_replace(holder, '#[^#]*$', ''), queue, fence,
  CASE WHEN state <> 2 THEN encode(result, 'escape') END
  FROM {task} t
 WHERE taken IS NOT NULL AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM {attempt} a WHERE a.task = t.id AND a.fence = t.fence);

CREATE TABLE {archive} (LIKE {task} INCLUDING CONSTRAINTS, archived bigint NOT NULL, PRIMARY KEY (id));
