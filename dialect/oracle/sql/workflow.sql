-- AddWorkflowTasks
-- Runs after Insert in the transaction of a workflow, with arrays.
INSERT INTO {step} (task, workflow, name, queue, needs, dependents, run_at, delay)
VALUES (:id, :workflow_id, :name, :queue_name, :needs, :dependents, :at, :delay);

-- AddWorkflowNeeds
-- Runs after AddWorkflowTasks, with arrays.
INSERT INTO {need} (parent, child, on_failure, met)
VALUES (:parent, :child, :on_failure, 0);
