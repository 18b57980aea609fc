package sqlrun

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

// A Field describes a field of dialect.Statements.
type Field struct {
	Name string
	// Args are the names of the values that the statement may use, its tag args, and Columns, its tag columns, of those
	// with one value for each row of a batch. For bytes such as :payload there may be their length, :payload_size, which
	// is null for null. The statements of Private may use others.
	Args, Columns []string
	// Default reports that the core writes the text if the field is empty. Optional reports that it may stay empty.
	Default, Optional bool
	// Part reports that the field is not run by itself: it is a part of other statements, or describes them.
	Part bool
}

// InsertColumns are the columns of dialect.Statements.Insert.
var InsertColumns = []string{"id", "reused", "reference", "kind", "task_key", "priority", "at", "delay",
	"max_attempts", "headers", "payload"}

// FieldOf describes the field of dialect.Statements with a name. For another name, it returns the zero value.
func FieldOf(name string) Field {
	f, found := reflect.TypeFor[dialect.Statements]().FieldByName(name)
	if !found {
		return Field{}
	}
	_, defaulted := reflect.TypeFor[dialect.Defaulted]().FieldByName(name)
	_, optional := reflect.TypeFor[dialect.Optional]().FieldByName(name)
	columns := strings.Fields(f.Tag.Get("columns"))
	switch name { // a tag of so many would not fit on its line: the comment lists them
	case "Insert":
		columns = InsertColumns
	case "AddStatistics":
		columns = slices.Sorted(maps.Keys(ColumnsOf([]StatisticsRow{})))
	}
	return Field{Name: f.Name, Args: strings.Fields(f.Tag.Get("args")), Columns: columns, Default: defaulted,
		Optional: optional || f.Tag.Get("empty") == "allowed", Part: f.Tag.Get("part") == "yes"}
}

// ColumnsOf returns rows as the values of a batch: a column for each field, with the name in its tag arg or db.
func ColumnsOf[T any](rows []T) dialect.Args {
	args, of := dialect.Args{}, reflect.ValueOf(rows)
	for i, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		col := reflect.MakeSlice(reflect.SliceOf(field.Type), len(rows), len(rows))
		for k := range rows {
			col.Index(k).Set(of.Index(k).Field(i))
		}
		args[cmp.Or(field.Tag.Get("arg"), field.Tag.Get("db"))] = column{col}
	}
	return args
}

// column is a dialect.Col whose type is known only when the program runs.
type column struct{ values reflect.Value }

func (c column) Len() int     { return c.values.Len() }
func (c column) At(i int) any { return c.values.Index(i).Interface() }
func (c column) Slice() any   { return c.values.Interface() }

func (c column) Pick(rows []int) dialect.Column {
	out := reflect.MakeSlice(c.values.Type(), len(rows), len(rows))
	for k, i := range rows {
		out.Index(k).Set(c.values.Index(i))
	}
	return column{out}
}
