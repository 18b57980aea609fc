-- AddStatistics
-- Runs once a minute in each worker that was busy, and for the totals, with arrays.
INSERT INTO {stat} (
       queue, period, since, source, enqueued, started, completed, failed, poisoned, released, created, processing,
       error, poison, due, parked, oldest_due, latency, run_time)
VALUES (:queue_name, :period, :began, :source, :enqueued, :started, :completed, :failed, :poisoned, :released, :created,
       :processing, :errors, :poison, :due, :parked, :oldest_due, :latency, :run_time);
