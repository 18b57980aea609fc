-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
CREATE TABLE {stat} (
  queue varchar(100) COLLATE "C" NOT NULL,
  period integer NOT NULL,
  since bigint NOT NULL,
  source varchar(200) COLLATE "C" NOT NULL,
  enqueued bigint NOT NULL,
  started bigint NOT NULL,
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  poisoned bigint NOT NULL,
  released bigint NOT NULL,
  created bigint NOT NULL,
  processing bigint NOT NULL,
  error bigint NOT NULL,
  poison bigint NOT NULL,
  due bigint NOT NULL,
  parked bigint NOT NULL,
  oldest_due bigint NOT NULL,
  latency text NOT NULL,
  run_time text NOT NULL,
  PRIMARY KEY (period, queue, since, source));

COMMENT ON TABLE {stat} IS 'Statistics over time of each queue.';
COMMENT ON COLUMN {stat}.period IS 'seconds, or 0 for the minute of one source';
COMMENT ON COLUMN {stat}.since IS 'when the period began, in microseconds since 1970';

CREATE INDEX {prefix}stat_since ON {stat} (period, since);
