package dbq

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/check"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := newConfig("dsn", nil)
	check.OK(t, err)
	if c.names != (dialect.Names{Prefix: "dbq_"}) || c.maxAttempts != DefaultMaxAttempts || c.migrate ||
		c.strategy != "" || c.maxPayload != 0 {
		t.Errorf("got %+v", c)
	}
	if c.logger == nil || c.clock == nil || c.name == "" || c.maxCheckoutBytes != DefaultMaxCheckoutBytes {
		t.Errorf("got %+v", c)
	}
	if err := bounds.Text(c.name, 1, bounds.MaxName, ErrOption, "name"); err != nil {
		t.Error(err)
	}
	id := newClientID(strings.Repeat("ä", bounds.MaxName))
	if other := newClientID(strings.Repeat("ä", bounds.MaxName)); other == id {
		t.Errorf("two clients of one name are both %q", id)
	}
	longest := id + "#" + strconv.FormatUint(math.MaxUint64, 36)
	if err := bounds.Text(longest, 1, MaxReference, ErrOption, "longest token"); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	c, err := newConfig("", []Option{
		WithPrefix("q_"), WithSchema("jobs"), WithStrategy(dialect.CAS), WithName("me"), WithMaxAttempts(3),
		WithMaxPayload(7), WithMigrate(), WithLogger(slog.Default()), WithMaxCheckoutBytes(8),
	})
	check.OK(t, err)
	if c.names != (dialect.Names{Schema: "jobs", Prefix: "q_"}) || c.strategy != dialect.CAS || c.name != "me" ||
		c.maxAttempts != 3 || c.maxPayload != 7 || c.maxCheckoutBytes != 8 || !c.migrate ||
		c.logger != slog.Default() {
		t.Errorf("got %+v", c)
	}
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Option{
		"prefix empty":            WithPrefix(""),
		"no observer":             WithObserver(nil),
		"no hook":                 WithEnqueueHook(nil),
		"prefix upper case":       WithPrefix("Dbq_"),
		"prefix with digit first": WithPrefix("1q"),
		"prefix with quote":       WithPrefix(`q"; DROP TABLE x; --`),
		"prefix with dot":         WithPrefix("a.b"),
		"prefix too long":         WithPrefix(strings.Repeat("a", 21)),
		"prefix with newline":     WithPrefix("dbq_\n"),
		"schema empty":            WithSchema(""),
		"schema with blank":       WithSchema("my schema"),
		"schema too long":         WithSchema(strings.Repeat("a", 21)),
		"name empty":              WithName(""),
		"name with newline":       WithName("a\nb"),
		"name too long":           WithName(strings.Repeat("a", bounds.MaxName+1)),
		"attempts none":           WithMaxAttempts(0),
		"attempts too many":       WithMaxAttempts(MaxMaxAttempts + 1),
		"payload none":            WithMaxPayload(0),
		"checkout bytes none":     WithMaxCheckoutBytes(0),
		"no logger":               WithLogger(nil),
		"no password":             WithPassword(nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(t.Context(), "sqlite::memory:", opt, WithMigrate())
			var e *Error
			if !errors.Is(err, ErrOption) || !errors.Is(err, ErrInvalid) || !errors.As(err, &e) || e.Op != "open" {
				t.Errorf("got %v, want ErrOption", err)
			}
			if text := err.Error(); !strings.Contains(text, "invalid option: With") || !strings.Contains(text, "must be ") {
				t.Errorf("got %q, want the option, its value and what is allowed", text)
			}
		})
	}
}

func TestRefusedOptionIsNamedWithItsValueAndRange(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "sqlite::memory:", WithMaxAttempts(40000))
	want := "dbq: open: invalid option: WithMaxAttempts must be 1 to 32767"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRepeatedOptionIsRefused(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Option{
		"WithPrefix": WithPrefix("q_"), "WithSchema": WithSchema("jobs"), "WithStrategy": WithStrategy(dialect.CAS),
		"WithName": WithName("me"), "WithMaxAttempts": WithMaxAttempts(3), "WithMaxPayload": WithMaxPayload(7),
		"WithLogger": WithLogger(slog.Default()), "WithMaxCheckoutBytes": WithMaxCheckoutBytes(7),
	} {
		_, err := newConfig("", []Option{opt, opt})
		if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), name+" is given twice") {
			t.Errorf("%s twice: got %v, want ErrOption", name, err)
		}
	}
}

func TestObserversAreChained(t *testing.T) {
	t.Parallel()
	var calls []string
	observe := func(name string) Option {
		return WithObserver(func(e Call) { calls = append(calls, name+" "+e.Op) })
	}
	c := inMemory(t, observe("metrics"), observe("traces"))
	_, err := c.Queue("q").Enqueue(t.Context(), NewTask{})
	check.OK(t, err)
	if want := []string{"metrics enqueue", "traces enqueue"}; !slices.Equal(calls, want) {
		t.Errorf("observers were called as %q, want %q", calls, want)
	}
}

func TestEnqueueHooksChangeAndRefuseTasks(t *testing.T) {
	t.Parallel()
	errLate := errors.New("too late")
	hook := func(h map[string]string) Option {
		return WithEnqueueHook(func(_ context.Context, queue string, task *NewTask) error {
			task.AddHeaders(h)
			if task.Kind == "refused" {
				return errLate
			}
			task.Kind, task.Delay = queue+task.Kind, time.Hour
			return nil
		})
	}
	first, second := map[string]string{"a": "first", "b": "first"}, map[string]string{"b": "second", "c": "second"}
	c := inMemory(t, hook(first), hook(second), hook(nil))
	q := c.Queue("q")
	own := map[string]string{"c": "its own"}
	given := []NewTask{{Kind: "1", Headers: own}, {Kind: "2"}}
	out, err := q.EnqueueMany(t.Context(), given)
	check.OK(t, err)
	if given[0].Kind != "1" || len(given[0].Headers) != 1 || len(own) != 1 || len(first) != 2 {
		t.Errorf("what the caller and the hooks passed became %v and %v", given[0], first)
	}
	task, err := c.Get(t.Context(), out[0].ID)
	want := map[string]string{"a": "first", "b": "first", "c": "its own"}
	if err != nil || task.Kind != "qqq1" || !maps.Equal(task.Headers, want) || task.Due.Sub(task.Created) != time.Hour {
		t.Errorf("got %+v, %v, want the kind qqq1, the headers %v and an hour's delay", task, err, want)
	}
	_, err = q.EnqueueMany(t.Context(), []NewTask{{Kind: "3"}, {Kind: "refused"}})
	if !errors.Is(err, errLate) || !strings.Contains(err.Error(), "task 2 of 2: refused by a hook: too late") {
		t.Errorf("got %v", err)
	}
	full := map[string]string{"x": strings.Repeat("x", MaxHeaders-9)}
	if _, err := q.Enqueue(t.Context(), NewTask{Headers: full}); err != nil {
		t.Errorf("a task without room for more headers: %v", err)
	}
	if got, err := q.Checkout(t.Context(), 10, time.Minute); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v, want no task, as all are delayed", got, err)
	}
}

func TestOpenRefusesWhatTheServerCannotDo(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "sqlite::memory:", WithMigrate(), WithStrategy(dialect.SkipLocked))
	if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "WithStrategy") ||
		!strings.Contains(err.Error(), "supports only [cas]") {
		t.Errorf("got %v", err)
	}
	if _, err := New(t.Context(), nil, sqlite.Dialect{}); !errors.Is(err, ErrOption) {
		t.Errorf("New without a pool: got %v", err)
	}
}

func TestMaxPayloadIsTheClients(t *testing.T) {
	t.Parallel()
	c := inMemory(t, WithMaxPayload(4))
	if got := c.Info().MaxPayload; got != 4 {
		t.Errorf("got %d, want 4", got)
	}
	q := c.Queue("q")
	if _, err := q.Enqueue(t.Context(), NewTask{Payload: []byte("1234")}); err != nil {
		t.Error(err)
	}
	if _, err := q.Enqueue(t.Context(), NewTask{Payload: []byte("12345")}); !errors.Is(err, ErrPayloadSize) {
		t.Errorf("got %v, want ErrPayloadSize", err)
	}
}

func TestMigrationSQLUsesTheRequestedNames(t *testing.T) {
	t.Parallel()
	text, err := MigrationSQL(sqlite.Dialect{}, WithPrefix("jobs_"))
	if err != nil || !strings.Contains(text, "CREATE TABLE jobs_task (") || strings.Contains(text, " dbq_") ||
		strings.ContainsAny(text, "?{}") {
		t.Errorf("got %v\n%s", err, text)
	}
	if _, err := MigrationSQL(sqlite.Dialect{}, WithPrefix("")); !errors.Is(err, ErrOption) {
		t.Errorf("got %v, want ErrOption", err)
	}
}

// inMemory is a client on a database in memory.
func inMemory(t *testing.T, opts ...Option) *Client {
	t.Helper()
	c, err := Open(t.Context(), "sqlite::memory:", append(opts, WithMigrate())...)
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestPasswordNeedsADSNOfADatabaseThatHasThem(t *testing.T) {
	t.Parallel()
	password := WithPassword(func(context.Context) (string, error) { return "", nil })
	if _, err := Open(t.Context(), "sqlite::memory:", password); !errors.Is(err, ErrOption) {
		t.Errorf("Open: got %v, want ErrOption", err)
	}
	if _, err := New(t.Context(), &sql.DB{}, sqlite.Dialect{}, password); !errors.Is(err, ErrOption) {
		t.Errorf("New: got %v, want ErrOption", err)
	}
}

// probes is SQLite that says that it has many writers, and that refuses one pool.
type probes struct {
	sqlite.Dialect
	refused *sql.DB
}

func (d probes) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	if db == d.refused {
		return dialect.Server{}, dialect.ErrServer
	}
	s, err := d.Dialect.Probe(ctx, db)
	s.OneWriter = false
	return s, err
}

func TestPoolOfTransactionsIsChecked(t *testing.T) {
	t.Parallel()
	pool, err := sqlite.Open(t.Context(), "sqlite::memory:", nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	own, tx := pool.Write, &sql.DB{}
	if _, err := New(t.Context(), own, probes{refused: tx}, WithTxDB(tx)); !errors.Is(err, ErrServer) {
		t.Errorf("a server that dbq cannot use: got %v, want ErrServer", err)
	}
	if _, err := New(t.Context(), own, sqlite.Dialect{}, WithTxDB(tx)); !errors.Is(err, ErrOption) {
		t.Errorf("one writer: got %v, want ErrOption", err)
	}
	if _, err := Open(t.Context(), "sqlite::memory:", WithTxDB(tx)); !errors.Is(err, ErrOption) {
		t.Errorf("Open: got %v, want ErrOption", err)
	}
	c, err := New(t.Context(), own, probes{}, WithTxDB(own), WithMigrate())
	check.OK(t, err)
	defer c.Close()
	if c.DB() != own {
		t.Error("DB is not the pool of WithTxDB")
	}
}
