package kit

import (
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/dbq-go/dbq/dialect"
)

func TestReadSchema(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"schema/000_migration.sql": {
			Data: []byte("-- why\nCREATE SCHEMA {schema};\n\nCREATE TABLE {migration} (\n  version int);\n"),
		},
		"schema/001_first_step.sql": {Data: []byte("CREATE TABLE {task} (a text DEFAULT ';'); \n-- an index\n" +
			"CREATE INDEX {prefix}x ON {task} (a);\n" +
			"CREATE TRIGGER {prefix}y ON {task} BEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\n")},
	}
	names := dialect.Names{Prefix: "q_"}
	got := ReadSchema(files, names, names.Filler())
	want := []dialect.Migration{
		{Version: 0, Title: "migration", Statements: []string{"CREATE TABLE q_migration (\n  version int)"},
			Comments: []string{"-- why\n"}},
		{Version: 1, Title: "first step", Statements: []string{"CREATE TABLE q_task (a text DEFAULT ';')",
			"CREATE INDEX q_x ON q_task (a)", "CREATE TRIGGER q_y ON q_task BEGIN\n  SELECT 1;\n  SELECT 2;\nEND"},
			Comments: []string{"", "-- an index\n", ""}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	names.Schema = "jobs"
	first := ReadSchema(files, names, names.Filler())[0].Statements
	if len(first) != 2 || first[0] != "CREATE SCHEMA jobs" {
		t.Errorf("with a schema: %q", first)
	}
}

func TestReadSchemaRefusesGapsAndOpenStatements(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]fstest.MapFS{
		"gap":          {"schema/001_tasks.sql": {Data: []byte("SELECT 1;\n")}},
		"no number":    {"schema/tasks.sql": {Data: []byte("SELECT 1;\n")}},
		"no semicolon": {"schema/000_tasks.sql": {Data: []byte("SELECT 1\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it was read")
				}
			}()
			ReadSchema(files, dialect.Names{}, dialect.Names{}.Filler())
		})
	}
}
