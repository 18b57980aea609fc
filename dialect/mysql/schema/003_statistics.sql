-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
CREATE TABLE IF NOT EXISTS {stat} (
  queue VARBINARY(400) NOT NULL,
  period INT NOT NULL COMMENT 'seconds, or 0 for the minute of one source',
  since BIGINT NOT NULL COMMENT 'when the period began, in microseconds since 1970',
  source VARBINARY(800) NOT NULL,
  enqueued BIGINT NOT NULL,
  started BIGINT NOT NULL,
  completed BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  poisoned BIGINT NOT NULL,
  released BIGINT NOT NULL,
  created BIGINT NOT NULL,
  processing BIGINT NOT NULL,
  error BIGINT NOT NULL,
  poison BIGINT NOT NULL,
  due BIGINT NOT NULL,
  parked BIGINT NOT NULL,
  oldest_due BIGINT NOT NULL,
  latency TEXT NOT NULL,
  run_time TEXT NOT NULL,
  PRIMARY KEY (period, queue, since, source),
  KEY {prefix}stat_since (period, since)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'Statistics over time of each queue.';
