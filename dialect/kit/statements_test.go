package kit

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/dbq-go/dbq/dialect"
)

// texts has a text of every kind.
var texts = fstest.MapFS{
	"sql/operate.sql": {Data: []byte(`-- Movable
SELECT 1 WHERE {guard};

-- Move
UPDATE {task} SET {set} WHERE id IN ({rows}) AND {guard};

-- Move row
:id;

-- Purge
DELETE WHERE {guard};
`)},
	"sql/settle.sql": {Data: []byte(`-- Remove
-- Ends attempts: that is all.
-- Index: the primary key.
UPDATE {task} SET state = {COMPLETED}, due = NULL
 WHERE id IN ({rows}) AND {held};

-- Remove row
-- A row is an id.
:id;

-- Batch remove one
DELETE FROM {task};

-- Settle
UPDATE ({rows}) d;

-- Settle row
SELECT :id, {ERROR};

-- held
-- The task is leased.
state = {PROCESSING};

-- Record
{block};

-- Record row
BEGIN
  INSERT :id;
END;
/

-- Peek
SELECT 1
 WHERE (1 = 0
        {rows});

-- Peek row
OR id = :id;

-- block
BEGIN
  {rows}
END;
/
`)},
	"sql/checkout.sql": {Data: []byte(`-- Text ready
-- Finds due tasks.
-- with lock = FOR UPDATE {skip}
SELECT 1
{search};

-- Text alone
-- with lock =
SELECT 2
{search};

-- Batch take
UPDATE {task};

-- search
-- One search for each priority.
FROM ({each: one})
{lock};

-- skip
-- Locked rows are left out.
SKIP LOCKED;

-- one
SELECT {number};

-- number
{p};
`)},
}

func TestReadStatements(t *testing.T) {
	t.Parallel()
	st := ReadStatements(texts, 500, dialect.Names{Prefix: "q_"}.Filler())
	all := "SELECT 0"
	for p := range 9 {
		all += fmt.Sprint("\n      UNION ALL SELECT ", p+1)
	}
	for _, c := range []struct{ got, want string }{
		{st.Remove.SQL, "-- Ends attempts: that is all.\n-- Index: the primary key.\n-- The task is leased.\n" +
			"-- A row is an id.\n" +
			"UPDATE q_task SET state = 2 /* COMPLETED */, due = NULL\n WHERE id IN ({rows}) AND state = 1 /* PROCESSING */"},
		{st.Remove.Row, ":id"},
		{st.Settle.Row, "SELECT :id, 3"},
		{st.Record.SQL, "BEGIN\n  {rows}\nEND;"},
		{st.Record.Row, "BEGIN\n    INSERT :id;\n  END;"},
		{st.Peek.SQL, "SELECT 1\n WHERE (1 = 0\n        {rows})"},
		{st.Peek.Row, "OR id = :id"},
		{st.Private["ready"].SQL, "-- Finds due tasks.\n-- One search for each priority.\n" +
			"-- Locked rows are left out.\nSELECT 1\nFROM (" + all + ")\nFOR UPDATE SKIP LOCKED"},
		{st.Private["alone"].SQL, "SELECT 2\nFROM (" + all + ")"},
		{st.Private["take"].SQL, "UPDATE q_task"},
		{st.Movable.SQL, "SELECT 1 WHERE {guard}"}, // the core fills it in
		{st.Move.SQL, "UPDATE q_task SET {set} WHERE id IN ({rows}) AND {guard}"},
		{st.Move.Row, ":id"},
		{st.Purge.SQL, "DELETE WHERE {guard}"},
		{st.Private["remove one"].SQL, "DELETE FROM q_task"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if st.Settle.Max != 500 || st.Private["take"].Max != 500 || st.Private["ready"].Max != 0 {
		t.Error("batches have no bound, or a plain text has one")
	}
}

func TestReadStatementsRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no name":       "SELECT 1;\n",
		"no SQL":        "-- Get\n;\n",
		"unknown field": "-- Gte\nSELECT 1;\n",
		"twice":         "-- Next\nSELECT 1;\n\n-- Next\nSELECT 2;\n",
		"own twice":     "-- Text a\nSELECT 1;\n\n-- Batch a\nSELECT 2;\n",
		"circle":        "-- Next\n{a};\n\n-- a\n({a});\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it was read")
				}
			}()
			ReadStatements(fstest.MapFS{"sql/x.sql": {Data: []byte(text)}}, 1, dialect.Names{}.Filler())
		})
	}
}
