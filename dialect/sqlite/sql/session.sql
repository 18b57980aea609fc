-- Now
{now};

-- now
CAST(unixepoch('subsec') * 1000000 AS INTEGER);

-- Limit
LIMIT :limit;

-- of_listed
-- A plus before a column keeps SQLite from searching by it: otherwise SQLite reads all tasks in PROCESSING, or all
-- tasks, and looks up each one in the list.
WHERE {task}.id = +d.column1
  AND {task}.fence = +d.column2
  AND +{task}.state = {PROCESSING};
