package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// queryStart matches the beginning of a query. Other text is not sent to a database, because it may be a secret and the
// database's error would repeat it.
var queryStart = regexp.MustCompile(`(?i)^\s*(select|with)\b`)

func newImport(a *app) *cobra.Command {
	var query, dsn, file string
	e := lineEnqueuer{a: a, unit: "row"}
	var l *pflag.FlagSet
	cmd := a.command("dbq import", noArgs("give the query as --from-sql QUERY"),
		func(ctx context.Context, _ []string) error {
			if err := clash(l, "source", "source-file"); err != nil {
				return err
			}
			if !queryStart.MatchString(query) {
				return usagef("--from-sql: give a query that begins with SELECT or WITH")
			}
			return a.use(ctx, false, func(c *dbq.Client) error {
				e.c = c
				return e.importRows(ctx, query, dsn, file)
			})
		})
	a.addQueueFlag(cmd, &e.flags.Queue, "the queue's `NAME`, for rows without one")
	l = cmd.Flags()
	l.StringVar(&query, "from-sql", "", "the `QUERY` whose rows become tasks")
	l.StringVar(&dsn, "source", "", "run the query on this `DATABASE` (default that of --dsn)")
	l.StringVar(&file, "source-file", "", "read the DSN of the source from `FILE`")
	l.StringVar(&e.flags.Kind, "kind", "", "the `KIND`, for rows without one")
	l.BoolVar(&e.dryRun, "dry-run", false, "only count the tasks: roll each batch back")
	return cmd
}

// importRows enqueues the rows of a query and prints the result.
func (e *lineEnqueuer) importRows(ctx context.Context, query, dsn, file string) error {
	src, err := e.a.openSource(ctx, dsn, file)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	defer src.pool.Close()
	e.show = newProgress(e.a.err)
	start := time.Now()
	reading, stop := context.WithCancel(ctx)
	rows := make(chan inputLine, batchTasks)
	go func() {
		defer close(rows)
		end := inputLine{err: io.EOF}
		if err := src.read(reading, query, rows); err != nil {
			end.err = fmt.Errorf("--from-sql: %w", src.explain(err))
		}
		select {
		case rows <- end:
		case <-reading.Done():
		}
	}()
	err = e.run(ctx, rows)
	stop()
	for range rows { // until the reader has ended
	}
	done, err := e.end(ctx, start, err)
	if err != nil {
		return err
	}
	return e.a.result(map[string]any{"added": e.added, "duplicates": e.duplicates, "dry_run": e.dryRun}, "%s", done)
}

// source is a database whose rows are imported.
type source struct {
	dsn     string
	dialect dialect.Dialect
	pool    dialect.Pool
}

// openSource opens the database of --source or --source-file, or else that of --dsn. It opens pools of its own: on
// SQLite, the client's only connection for writes could not enqueue while it reads.
func (a *app) openSource(ctx context.Context, dsn, file string) (s source, err error) {
	from := *a
	if dsn+file != "" {
		from.dsn, from.dsnFile = dsn, file
	}
	if file != "" {
		if from.dsn, err = a.readDSN("source-file", file); err != nil {
			return s, err
		}
	}
	t, err := from.target()
	if err != nil {
		return s, err
	}
	if t.file != "" {
		if _, err := os.Stat(t.file); err != nil {
			return s, usagef("cannot read the SQLite file: %w", unnamed(err))
		}
		if path, params, _ := strings.Cut(t.dsn, "?"); !strings.Contains(params, "mode=") {
			t.dsn = path + "?mode=ro&" + params // else dbq would change the file to WAL mode
		}
	}
	if dsn+file != "" {
		a.caution(t.note)
	}
	driver, pool, err := sqlrun.Open(ctx, t.dsn, from.password())
	s = source{t.dsn, driver.Dialect, pool}
	if err != nil {
		return s, s.explain(err)
	}
	return s, nil
}

// explain classifies an error of the source and hides the DSN's secrets.
func (s source) explain(err error) error {
	class := s.dialect.Classify(err)
	err = dsnredact.Scrub(err, s.dsn)
	switch class {
	case dialect.Unknown, dialect.Missing, dialect.Invalid: // such as a misspelled column
		return usagef("%w", err)
	case dialect.Ambiguous: // the source is only read
		class = dialect.Unavailable
	}
	return errs.WithSentinel(class, err)
}

// read sends the rows of a query as lines, until ctx ends. It rolls the query's transaction back, so that no query can
// remove what it reads.
func (s source) read(ctx context.Context, query string, lines chan<- inputLine) error {
	tx, err := cmp.Or(s.pool.Caller, s.pool.Read).BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	fields, err := fieldsOf(names)
	if err != nil {
		return err
	}
	values, into := make([]any, len(fields)), make([]any, len(fields))
	for i := range values {
		into[i] = &values[i]
	}
	for n := 1; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		text, err := lineOf(fields, values)
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		select {
		case lines <- inputLine{number: n, text: text}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return rows.Err()
}

// columns are the names that the columns of a query may have. The tables of other queues, and the view dbq_enqueue, say
// run_at for due, and task_key for key, which is a keyword of MySQL.
var columns = []string{"due", "headers", "key", "kind", "max_attempts", "payload", "priority", "queue", "reference",
	"run_at", "task_key"}

// fieldsOf returns the fields of a line that columns set.
func fieldsOf(names []string) (fields []string, err error) {
	for _, name := range names {
		name = strings.ToLower(name) // Oracle's are in upper case
		if !slices.Contains(columns, name) {
			return nil, fmt.Errorf("%q is no field of a task: leave it out, or rename it by AS to one of %s",
				name, strings.Join(columns, ", "))
		}
		field := cmp.Or(map[string]string{"due": "run_at", "task_key": "key"}[name], name)
		if slices.Contains(fields, field) {
			return nil, fmt.Errorf("two columns set %s", field)
		}
		fields = append(fields, field)
	}
	if !slices.Contains(fields, "reference") {
		return nil, errors.New("the column reference is missing, by which a repeated import recognizes its tasks: " +
			"add one, such as SELECT id AS reference")
	}
	return fields, nil
}

// inJSON are the fields that a line has as JSON, and what a column must contain.
var inJSON = map[string]string{"headers": "a JSON object", "max_attempts": "a number", "priority": "a number"}

// lineOf returns a row as a line of `dbq enqueue --lines`.
func lineOf(fields []string, values []any) ([]byte, error) {
	line := map[string]any{}
	for i, field := range fields {
		text := textOf(values[i])
		switch {
		case field == "reference" && text == "":
			return nil, errors.New("the reference is empty")
		case values[i] == nil:
		case field == "payload":
			line["payload_base64"] = []byte(text)
		case !utf8.ValidString(text):
			return nil, fmt.Errorf("%s must be UTF-8 text", field)
		case inJSON[field] == "" && field != "run_at":
			line[field] = text
		case field == "run_at":
			due, err := timeOf(values[i])
			if err != nil {
				return nil, err
			}
			line[field] = due
		case !json.Valid([]byte(text)):
			return nil, fmt.Errorf("%s must be %s", field, inJSON[field])
		default:
			line[field] = json.RawMessage(text)
		}
	}
	return json.Marshal(line)
}

// textOf returns a value of a row as text. NULL is empty.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// timeLayouts are the forms of times that databases return as text. A fraction of a second may follow the seconds.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07"}

// timeOf returns a value of a row as a time. Text without a zone is in UTC. A number is in microseconds since 1970, as
// in the view dbq_enqueue. Numbers of seconds or milliseconds would be before 2000, and are refused.
func timeOf(v any) (time.Time, error) {
	if t, ok := v.(time.Time); ok {
		return t, nil
	}
	text := strings.Replace(textOf(v), "T", " ", 1)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if t := time.UnixMicro(n).UTC(); t.Year() >= 2000 {
			return t, nil
		}
		return time.Time{}, errors.New("a due time that is a number must be in microseconds since 1970")
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("the due time must have the form 2030-01-31 08:00:00, with or without a zone")
}
