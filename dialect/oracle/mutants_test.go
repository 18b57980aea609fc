package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// small is a schema to break statements on.
func small(t *testing.T) schema {
	s := schema{}
	for _, ddl := range []string{
		"CREATE TABLE t1 (id RAW(16) NOT NULL, a NUMBER(5), b NUMBER(5) DEFAULT 0 NOT NULL, due NUMBER(19), payload BLOB, " +
			"v NUMBER(5) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN a END) VIRTUAL, CONSTRAINT t1_pk PRIMARY KEY (id))",
	} {
		if p := check(s, ddl, 0); p != nil {
			t.Fatal(p)
		}
	}
	return s
}

// Statements that Oracle would refuse, or read other than they were meant, and how the checker says so; and their
// sound like.
func TestCheckerFindsBrokenStatements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		values int
		want   string // in one of the problems; "" is none
	}{
		{"SELECT a, b FROM t1 WHERE id = :arg1 AND a IN (:arg2, :arg3) ORDER BY id FETCH FIRST :arg4 ROWS ONLY", 4, ""},
		{"SELECT x.a AS b FROM t1 x WHERE x.id = :arg1 FOR UPDATE SKIP LOCKED", 1, ""},
		{"INSERT INTO t1 (id, a, payload) VALUES (:arg1, 1, :arg2)", 2, ""},
		{"INSERT INTO t1 (id, a) SELECT :arg1, (b + :arg2) FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE a = :arg3)",
			3, ""},
		{"DELETE FROM t1 WHERE a = :arg1 AND ROWNUM <= :arg2", 2, ""},
		{"UPDATE t1 SET a = CASE WHEN due IS NULL THEN a ELSE 1 END, due = NULL WHERE id = :arg1 AND due <= 5", 1, ""},
		{"DELETE FROM t1 WHERE id = :arg1", 1, ""},
		{"BEGIN INSERT INTO t1 (id) VALUES (:arg1); EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL; END;", 1, ""},
		{"BEGIN EXECUTE IMMEDIATE 'CREATE INDEX i1 ON t1 (a)'; END;", 0, ""},
		{"CREATE UNIQUE INDEX i1 ON t1 (a, CASE WHEN a IS NOT NULL THEN b END)", 0, ""},
		{"SELECT a FROM t1 WHERE a = 3 /* ERROR */", 0, ""},

		// what is not closed, or ends wrongly
		{"SELECT a FROM t1 WHERE a = 'x", 0, "a literal is not closed"},
		{"SELECT a FROM t1 WHERE (a = 1", 0, "1 parentheses are not closed"},
		{"SELECT a FROM t1 WHERE a = 1)", 0, "closed that is not open"},
		{"SELECT a FROM t1;", 0, "; in plain SQL"},
		{"UPDATE t1 SET a = CASE WHEN b = 1 THEN 2 WHERE id = :arg1", 1, "[CASE] not ended"},
		{"BEGIN UPDATE t1 SET a = 1 WHERE b = 1; END", 0, "does not end in END;"},
		{"BEGIN IF SQLCODE <> 1 THEN RAISE; END;", 0, "END closes a BEGIN"},
		{"BEGIN FOR i IN 0 .. 9 LOOP UPDATE t1 SET a = i WHERE b = 1; END; END;", 0, "closes a BEGIN"},
		{"BEGIN BEGIN UPDATE t1 SET a = 1 WHERE b = 1; END;", 0, "not ended"},
		{"BEGIN UPDATE t1 SET a = 1 WHERE b = 1; END; END;", 0, "END closes a BEGIN"},
		{"EXCEPTION", 0, "begins with EXCEPTION"},
		{"SELECT a FROM t1 -- all", 0, "a comment"},
		{"SELECT a /* all */ FROM t1", 0, "a comment"},
		{"SELECT a /* ERROR */ FROM t1", 0, "a comment"},
		{"SELECT a FROM t1 WHERE a = 3 /* EROR */", 0, "a comment"},
		{"", 0, "empty"},

		// values
		{"SELECT a FROM t1 WHERE a = :arg1 AND b = :arg3", 2, "the value 2 is called :arg3"},
		{"SELECT a FROM t1 WHERE a = :arg1 AND b = :arg1", 2, "the value 2 is called :arg1"},
		{"SELECT a FROM t1 WHERE a = :arg1", 2, "1 values are asked for and 2 are given"},
		{"SELECT a FROM t1 WHERE a = :a", 1, "is called :a"},
		{"SELECT a FROM t1 WHERE a = ?", 1, "the character '?'"},
		{"SELECT a FROM t1 WHERE a = $1", 1, "a name begins with $"},

		// what Oracle refuses
		{"SELECT a FROM t1 ORDER BY a FETCH FIRST :arg1 ROWS ONLY FOR UPDATE", 1,
			"FOR UPDATE in a query with FETCH (ORA-02014)"},
		{"SELECT a FROM t1 ORDER BY a FETCH FIRST :arg1 ROWS ONLY FOR UPDATE SKIP LOCKED", 1, "ORA-02014"},
		{"SELECT COUNT(*) AS a FROM t1 FOR UPDATE", 0, "ORA-02014"},
		{"SELECT a FROM t1 GROUP BY a FOR UPDATE", 0, "ORA-02014"},
		{"SELECT a FROM t1 WHERE ROWNUM <= 5 FOR UPDATE SKIP LOCKED", 0, "ROWNUM"},
		{"SELECT a FROM t1 FOR UPDATE ORDER BY a", 0, "ORDER behind FOR"},
		{"SELECT a FROM t1 FETCH FIRST :arg1 ROWS ONLY WHERE a = 1", 1, "WHERE behind FETCH"},
		{"SELECT a FROM t1 SKIP LOCKED", 0, "SKIP LOCKED without FOR UPDATE"},
		{"SELECT a FROM t1 LIMIT 5", 0, "LIMIT"},
		{"SELECT a FROM t1 ORDER BY a OFFSET :arg1 ROWS FETCH NEXT 1 ROWS ONLY", 1, ""},
		{"SELECT a FROM t1 ORDER BY a OFFSET :arg1 FETCH NEXT 1 ROWS ONLY", 1, "OFFSET is not"},
		{"SELECT a FROM t1 FETCH FIRST ROWS ONLY", 0, "FETCH FIRST is not"},
		{"SELECT 1 AS a", 0, "a SELECT without FROM"},
		{"SELECT a FROM t1 AS x WHERE x.a = 1", 0, "a table's alias with AS"},
		{"SELECT a FROM t1 WHERE a = TRUE", 0, "a truth value in SQL"},
		{"SELECT a FROM t1 WHERE a = NULL", 0, "a comparison with null"},
		{"SELECT a FROM t1 WHERE a <> NULL", 0, "a comparison with null"},
		{"UPDATE t1 SET a = CASE WHEN a = NULL THEN 1 END WHERE id = :arg1", 1, "a comparison with null"},
		{"SELECT a FROM t1 WHERE a = ''", 0, "an empty text"},
		{"SELECT a::NUMBER FROM t1", 0, "the character ':'"},
		{"SELECT `a` FROM t1", 0, "the character '`'"},
		{`SELECT "a" FROM t1`, 0, "the character '\"'"},
		{"SELECT a FROM t1 WHERE due <= NOW()", 0, "the word NOW"},
		{"SELECT a FROM t1 WHERE due <= UNIXEPOCH()", 0, "the word UNIXEPOCH"},
		{"SELECT EXCLUDED.a FROM t1", 0, "the word EXCLUDED"},
		{"SELECT a FROM t1 WHERE a = 1 AND ROWNUM <= :arg1 ORDER BY a", 1, "ROWNUM counts before"},
		{"DELETE FROM t1 WHERE a = 1 AND ROWNUM > :arg1", 1, "ROWNUM is not of the form"},
		{"DELETE FROM t1 WHERE a = 1 ROWNUM <= :arg1", 1, "ROWNUM is not of the form"},
		{"INSERT INTO t1 (id) VALUES (:arg1) ON CONFLICT DO NOTHING", 1, "the word CONFLICT"},
		{"INSERT IGNORE INTO t1 (id) VALUES (:arg1)", 1, "the word IGNORE"},
		{"INSERT INTO t1 (id) VALUES (:arg1), (:arg2)", 2, "an INSERT of several rows"},
		{"INSERT INTO t1 (id) VALUES (:arg1) RETURNING id", 1, "RETURNING without INTO"},
		{"UPDATE t1 SET a = 1 FROM dual WHERE id = :arg1", 1, "an UPDATE with FROM"},
		{"DELETE t1 WHERE id = :arg1", 1, "DELETE without FROM"},
		{"DELETE x FROM t1 x WHERE id = :arg1", 1, "DELETE without FROM"},
		{"WITH x AS (SELECT a FROM t1) SELECT a FROM x", 0, "begins with WITH"},
		{"COMMIT", 0, "begins with COMMIT"},
		{"SELECT a FROM t1 WHERE a := 1", 0, ":= in plain SQL"},
		{"CREATE TABLE IF NOT EXISTS t2 (id RAW(16) NOT NULL)", 0, "[IF] not ended"},
		{"CREATE TABLE t2 (id BIGINT NOT NULL)", 0, "the word BIGINT"},
		{"CREATE TABLE t2 (id RAW(16) NOT NULL, a TEXT)", 0, "the word TEXT"},
		{"CREATE INDEX i1 ON t1 (a) WHERE due IS NOT NULL AND partial = 1", 0, "the word PARTIAL"},

		{"SELECT a FROM t1 WHERE a IN (:arg1 :arg2)", 2, "nothing between :arg1 and :arg2"},
		{"SELECT a FROM t1 WEHRE a = 1", 0, "nothing between WEHRE and A"},
		{"SELECT a FROM t1 WHERE a = 1 b = 2", 0, "nothing between 1 and B"},
		{"SELECT a b FROM t1", 0, "nothing between A and B"},
		{"SELECT /*+ INDEX(t t1_pk */ a FROM t1", 0, "no hint"},

		// names
		{"SELECT c FROM t1", 0, "the word C is neither"},
		{"SELECT x.c FROM t1 x", 0, "no column C"},
		{"SELECT y.a FROM t1 x", 0, "the word Y is neither"},
		{"SELECT a FROM t2", 0, "the word T2 is neither"},
		{"UPDATE t2 SET a = 1 WHERE a = 2", 0, "no table T2"},
		{"SELECT a AS level FROM t1", 0, "the reserved word LEVEL"},
		{"SELECT a AS size FROM t1", 0, "the reserved word SIZE"},
		{"CREATE TABLE t2 (id RAW(16) NOT NULL, comment VARCHAR2(5 BYTE))", 0, "the reserved word COMMENT"},
		{"CREATE TABLE session (id RAW(16) NOT NULL)", 0, "the reserved word SESSION"},
		{"CREATE TABLE t2 (a_name_of_more_than_thirty_bytes NUMBER(5))", 0, "longer than 30 bytes"},
		{"CREATE INDEX an_index_of_more_than_thirty_byte ON t1 (a)", 0, "longer than 30 bytes"},
		{"CREATE TABLE t2 (_id NUMBER(5))", 0, "a name begins with _"},
		{"CREATE INDEX i1 ON t1 (c)", 0, "the word C is neither"},
		{"CREATE OR REPLACE VIEW v1 AS SELECT c FROM t1", 0, "the word C"},
		{"DECLARE l_a NUMBER(5); BEGIN l_b := 1; END;", 0, "the word L_B"},

		// counts and columns of writes
		{"INSERT INTO t1 (id, a) VALUES (:arg1)", 1, "2 columns and 1 values"},
		{"INSERT INTO t1 (id) VALUES (:arg1, 2)", 1, "1 columns and 2 values"},
		{"INSERT INTO t1 (id, a) SELECT id FROM t1", 0, "2 columns and 1 values"},
		{"INSERT INTO t1 (id, a) SELECT id, a, b FROM t1", 0, "2 columns and 3 values"},
		{"INSERT INTO t1 (id, a) SELECT id, FROM t1", 0, "2 columns and 2 values"},
		{"INSERT INTO t1 (id, a) DEFAULT", 0, "without VALUES or SELECT"},
		{"INSERT INTO t1 (id, a) VALUES (:arg1, )", 1, "2 columns and 2 values"},
		{"INSERT INTO t1 (id, v) VALUES (:arg1, 1)", 1, "an INSERT cannot fill V"},
		{"INSERT INTO t1 (id, c) VALUES (:arg1, 1)", 1, "an INSERT cannot fill C"},
		{"INSERT INTO t1 (id, a, a) VALUES (:arg1, 1, 2)", 1, "an INSERT cannot fill A"},
		{"INSERT INTO t1 (a) VALUES (1)", 0, "leaves out ID"},
		{"INSERT INTO t1 VALUES (:arg1)", 1, "an INSERT without columns"},
		{"UPDATE t1 SET v = 1 WHERE id = :arg1", 1, "an UPDATE cannot set V"},
		{"UPDATE t1 SET c = 1 WHERE id = :arg1", 1, "an UPDATE cannot set C"},
		{"UPDATE t1 SET a = 1, a = 2 WHERE id = :arg1", 1, "an UPDATE cannot set A"},
		{"UPDATE t1 x SET x.a = 1 WHERE id = :arg1", 1, "an UPDATE without SET"},
		{"UPDATE t1 SET a = 1", 0, "an UPDATE without WHERE"},

		// what a block executes
		{"BEGIN EXECUTE IMMEDIATE 'CREATE TABLE t2 (id BIGINT)'; END;", 0, "in what is executed: the word BIGINT"},
		{"BEGIN EXECUTE IMMEDIATE 'DROP TABLE t1;'; END;", 0, "in what is executed: ; in plain SQL"},
		{"BEGIN EXECUTE IMMEDIATE 'UPDATE t1 SET a = ''x WHERE b = 1'; END;", 0,
			"in what is executed: a literal is not closed"},
		{"BEGIN EXECUTE IMMEDIATE 'BEGIN DBMS_LOCK.REQUEST(' || l_id || '); END'; END;", 0, "does not end in END;"},
	} {
		problems := strings.Join(check(small(t), c.text, c.values), "\n")
		if c.want == "" && problems != "" {
			t.Errorf("%s\nis sound, but: %s", c.text, problems)
		} else if !strings.Contains(problems, c.want) {
			t.Errorf("%s\ngot %q, want %q", c.text, problems, c.want)
		}
	}
}

// Each statement of the dialect itself, broken in one place, is found out.
func TestCheckerFindsMutationsOfEachStatement(t *testing.T) {
	t.Parallel()
	s := catalog()
	all := everything(t, namings[0])
	for _, x := range all {
		check(s, x.text, len(x.values))
	}
	replace := func(old, by string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, by, 1) }
	}
	breaks := map[string]func(string) string{
		"a parenthesis less": replace(")", ""),
		"a parenthesis more": replace(")", "))"),
		"a quote less":       replace("'", ""),
		"a value less":       replace(":arg1", "1"),
		"another value":      replace(":arg1", ":arg9999"),
		"a misspelled table": replace("dbq_task ", "dbq_tsak "),
		"a misspelled column": func(text string) string {
			return replace("version", "verison")(replace("due", "deu")(text))
		},
		"a misspelled WHERE": replace("WHERE", "WEHRE"),
		"another end": func(text string) string {
			if cut, ok := strings.CutSuffix(text, ";"); ok {
				return cut
			}
			return text + ";"
		},
		"LIMIT":          replace("FETCH FIRST :arg", "LIMIT :arg"),
		"a lock":         replace("ROWS ONLY", "ROWS ONLY FOR UPDATE"),
		"no FROM":        replace(" FROM ", " "),
		"a backtick":     replace("queue", "`queue`"),
		"an END less":    replace(" END", ""),
		"a word more":    replace(" = ", " = BINARY "),
		"a column twice": replace("SET ", "SET updated = 1, updated = 2, "),
	}
	// DDL makes or drops what has any name; and the columns that the probe reads are not ours.
	unbroken := map[string][]string{
		"a misspelled table":  {"CREATE TABLE", "DROP"},
		"a misspelled column": {"CREATE ", "product_component_version"},
	}
	caught := map[string]int{}
	for _, x := range all {
		text := strings.Join(strings.Fields(x.text), " ")
		for name, how := range breaks {
			broken := how(text)
			holds := func(part string) bool { return strings.Contains(text, part) }
			if broken == text || slices.ContainsFunc(unbroken[name], holds) {
				continue
			}
			if len(check(maps.Clone(s), broken, len(x.values))) == 0 {
				t.Errorf("%s: %s was not found:\n%s", x.name, name, broken)
			}
			caught[name]++
		}
	}
	for name := range breaks {
		if caught[name] == 0 {
			t.Errorf("no statement could be broken by %s", name)
		}
	}
	t.Log(fmt.Sprint(caught))
}
