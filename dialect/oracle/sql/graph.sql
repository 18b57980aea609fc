-- AddGraphTasks
-- Runs after Insert in the transaction of a graph, with arrays.
INSERT INTO {graph_task} (task, graph, name, queue, needs, dependents, run_at, delay)
VALUES (:id, :graph_id, :name, :queue_name, :needs, :dependents, :at, :delay);

-- AddGraphNeeds
-- Runs after AddGraphTasks, with arrays.
INSERT INTO {graph_need} (parent, child, on_failure, met)
VALUES (:parent, :child, :on_failure, 0);
