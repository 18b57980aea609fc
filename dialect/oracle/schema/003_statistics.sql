-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
CREATE TABLE {stat} (
  queue VARCHAR2(400 BYTE) NOT NULL,
  period NUMBER(10) NOT NULL,
  since NUMBER(19) NOT NULL,
  source VARCHAR2(800 BYTE) NOT NULL,
  enqueued NUMBER(19) NOT NULL,
  started NUMBER(19) NOT NULL,
  completed NUMBER(19) NOT NULL,
  failed NUMBER(19) NOT NULL,
  poisoned NUMBER(19) NOT NULL,
  released NUMBER(19) NOT NULL,
  created NUMBER(19) NOT NULL,
  processing NUMBER(19) NOT NULL,
  error NUMBER(19) NOT NULL,
  poison NUMBER(19) NOT NULL,
  due NUMBER(19) NOT NULL,
  parked NUMBER(19) NOT NULL,
  oldest_due NUMBER(19) NOT NULL,
  latency VARCHAR2(4000 BYTE),
  run_time VARCHAR2(4000 BYTE),
  CONSTRAINT {prefix}stat_pk PRIMARY KEY (period, queue, since, source)
);

COMMENT ON TABLE {stat} IS 'Statistics over time of each queue.';
COMMENT ON COLUMN {stat}.period IS 'seconds, or 0 for the minute of one source';
COMMENT ON COLUMN {stat}.since IS 'when the period began, in microseconds since 1970';

CREATE INDEX {owner}stat_since ON {stat} (period, since);
