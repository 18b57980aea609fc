package main

import (
	"fmt"
	"strconv"
	"strings"
)

// mysqlInsert takes its numbers from a product of digits: both servers bound how deep a recursive query goes, by
// variables of different names.
const mysqlInsert = `
INSERT INTO {task}
       (id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload)
SELECT UNHEX(CONCAT(LPAD(HEX({now} DIV 1000), 12, '0'), '70008000', LPAD(HEX(i), 12, '0'))),
       'bench', '', {state}, 0, 10, coalesce({due}, -1), {now}, {now},
       CONCAT(RPAD(CONCAT('{"number":', i, ',"text":"'), 198, 'x'), '"}')
  FROM (SELECT ? + {number} AS i FROM {digits}) AS g
 WHERE i < ?
 ORDER BY i`

// mysqlNumbers returns the parts of a statement that has n numbers, from 0 on, and up to ten times as many.
func mysqlNumbers(n int) (number, digits string) {
	const one = `(
         SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL
         SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) AS d`
	var sums, tables []string
	for i, factor := 0, 1; i < len(strconv.Itoa(n-1)); i, factor = i+1, factor*10 {
		sums = append(sums, fmt.Sprintf("d%d.d * %d", i, factor))
		tables = append(tables, one+strconv.Itoa(i))
	}
	return strings.Join(sums, " + "), strings.Join(tables, " CROSS JOIN ")
}

func (p *mysqlPlace) floorSQL() floorSQL {
	return floorSQL{
		task: p.schema + ".dbq_task",
		now:  "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
		insert: func(n int) string {
			number, digits := mysqlNumbers(n)
			return strings.NewReplacer("{number}", number, "{digits}", digits).Replace(mysqlInsert)
		},
		mark: `
UPDATE {task}
   SET state = 1, due_at = {now} - 4611686018427387904, attempt = attempt + 1, fence = fence + 1,
       lease_end = {now} + 300000000, taken_by = RPAD('floor', 64, ' '), updated = {now}
 WHERE queue = 'bench' AND lane = 0 AND due_at <= {now}`,
		finish: `
UPDATE {task}
   SET state = 2, due_at = -1, lease_end = -1, updated = {now}, result = NULL
 WHERE queue = 'bench' AND lane = 9`,
		remove: "DELETE FROM {task} WHERE queue = 'bench' AND lane = 9",
		tidy:   "ANALYZE TABLE {task}",
	}
}
