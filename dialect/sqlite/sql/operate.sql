-- SetResult
-- Runs after Move, in its transaction, when the operator gives a reason. Index: task_id.
UPDATE {task}
   SET result = d.column2
  FROM (VALUES {rows}) AS d
 WHERE {task}.id = +d.column1;

-- SetResult row
(:id, :result);
