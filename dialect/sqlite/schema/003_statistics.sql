-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
CREATE TABLE {stat} (
  queue TEXT NOT NULL,
  period INTEGER NOT NULL,
  since INTEGER NOT NULL,
  source TEXT NOT NULL,
  enqueued INTEGER NOT NULL,
  started INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  poisoned INTEGER NOT NULL,
  released INTEGER NOT NULL,
  created INTEGER NOT NULL,
  processing INTEGER NOT NULL,
  error INTEGER NOT NULL,
  poison INTEGER NOT NULL,
  due INTEGER NOT NULL,
  parked INTEGER NOT NULL,
  oldest_due INTEGER NOT NULL,
  latency TEXT NOT NULL,
  run_time TEXT NOT NULL,
  PRIMARY KEY (period, queue, since, source)) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}stat_since ON {stat} (period, since);
