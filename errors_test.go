package dbq

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

var inputErrors = []error{
	ErrQueueName, ErrReference, ErrKind, ErrKey, ErrPriority, ErrMaxAttempts, ErrDelay, ErrHeaders, ErrPayloadSize, ErrID,
	ErrCount, ErrLeaseTime,
	ErrWrongQueue, ErrFilter, ErrEvent, ErrOption, ErrTx,
}

var otherErrors = []error{
	ErrUnknownScheme, ErrDSN, ErrServer, ErrNotMigrated, ErrSchemaOld, ErrSchemaNew, ErrClosed, ErrUnavailable,
	ErrConflict,
	ErrMayHaveHappened,
	ErrDenied, ErrDuplicate, ErrLeaseLost, ErrNotFound, ErrWrongState,
}

func TestEveryInputErrorIsErrInvalidAndNoOther(t *testing.T) {
	t.Parallel()
	all := append(append([]error{}, inputErrors...), otherErrors...)
	for i, err := range all {
		if got, want := errors.Is(err, ErrInvalid), i < len(inputErrors); got != want {
			t.Errorf("%v is ErrInvalid: %v, want %v", err, got, want)
		}
		for k, other := range all {
			if (i == k) != errors.Is(err, other) {
				t.Errorf("%v is %v: %v", err, other, i != k)
			}
		}
	}
}

func TestErrorMessages(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0198c1f2-0000-7000-8000-000000000001")
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{&Error{Op: "complete", Queue: "mail", TaskID: id, Err: ErrLeaseLost},
			`dbq: complete task 0198c1f2-0000-7000-8000-000000000001 of queue "mail": the lease is lost`},
		{&Error{Op: "get", TaskID: id, Err: ErrNotFound}, `dbq: get task 0198c1f2-0000-7000-8000-000000000001: not found`},
		{&Error{Op: "checkout", Queue: "a\nb", Err: ErrQueueName}, `dbq: checkout of queue "a\nb": invalid queue name`},
		{&Error{Op: "open", Err: ErrDenied}, "dbq: open: the database refused access"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
		if !errors.Is(c.err, c.err.Err) {
			t.Errorf("%v does not lead to its cause", c.err)
		}
	}
}

func TestWrapPutsTheSentinelOfTheClassInFront(t *testing.T) {
	t.Parallel()
	c := inMemory(t)
	_, missing := c.DB().ExecContext(t.Context(), "DELETE FROM dbq_nothing")
	for _, w := range []struct {
		err   error
		want  error
		class dialect.Class
	}{
		{missing, ErrNotMigrated, dialect.Missing},
		{io.ErrUnexpectedEOF, ErrMayHaveHappened, dialect.Ambiguous},
		{&sqlrun.TxError{Err: io.ErrUnexpectedEOF}, ErrUnavailable, dialect.Unavailable},
		{&sqlrun.TxError{Committing: true, Err: context.Canceled}, ErrMayHaveHappened, dialect.Ambiguous},
		{errors.New("anything"), nil, dialect.Unknown},
	} {
		err := c.wrap("test", "q", uuid.Nil, w.err)
		var e *Error
		if !errors.As(err, &e) || e.Class != w.class || !errors.Is(err, w.err) || w.want != nil && !errors.Is(err, w.want) {
			t.Errorf("got %v, want %v", err, w.want)
		}
		if again := c.wrap("outer", "", uuid.Nil, err); again != err {
			t.Errorf("an Error was wrapped again: %v", again)
		}
	}
	if c.wrap("test", "", uuid.Nil, nil) != nil {
		t.Error("no error became one")
	}
}

func TestErrorsNameTheOperation(t *testing.T) {
	t.Parallel()
	c := inMemory(t)
	q, ctx := c.Queue("mail"), t.Context()
	lease := Lease{TaskID: NewID(), Queue: "mail", Fence: 1, Until: time.Now()}
	elsewhere := lease
	elsewhere.Queue = "other"
	for op, got := range map[string]struct{ err, want error }{
		"enqueue":                  {second(q.Enqueue(ctx, NewTask{Priority: 10})), ErrPriority},
		"enqueue: ":                {second(c.Queue("").Enqueue(ctx, NewTask{})), ErrQueueName},
		"checkout":                 {second(q.Checkout(ctx, 0, time.Minute)), ErrCount},
		`checkout of queue "mail"`: {second(q.Checkout(ctx, 1, 0)), ErrLeaseTime},
		"complete task":            {q.Complete(ctx, lease, nil), ErrLeaseLost},
		"fail task":                {q.Settle(ctx, lease, RetryIn(-1, nil)), ErrDelay},
		"poison":                   {q.Settle(ctx, elsewhere, Poisoned(nil)), ErrWrongQueue},
		"release":                  {q.Settle(ctx, Lease{}, Released(0)), ErrLeaseLost},
		"extend":                   {second(q.Extend(ctx, lease, time.Minute)), ErrLeaseLost},
		"get task":                 {second(c.Get(ctx, lease.TaskID)), ErrNotFound},
		"wait task":                {second(c.Wait(ctx, lease.TaskID)), ErrNotFound},
		"find":                     {second(q.Find(ctx, "")), ErrReference},
		"complete":                 {q.CompleteTx(ctx, nil, lease, nil), ErrTx},
		`enqueue of queue "mail"`:  {second(q.EnqueueTx(ctx, nil, NewTask{})), ErrTx},
	} {
		if !errors.Is(got.err, got.want) || !strings.HasPrefix(got.err.Error(), "dbq: "+op) {
			t.Errorf("%s: got %v, want %v", op, got.err, got.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestClosedClientReturnsErrClosed(t *testing.T) {
	t.Parallel()
	c := inMemory(t)
	q, ctx := c.Queue("q"), t.Context()
	check.OK(t, c.Close())
	if err := c.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	for call, err := range map[string]error{
		"enqueue":  second(q.Enqueue(ctx, NewTask{})),
		"checkout": second(q.Checkout(ctx, 1, time.Minute)),
		"get":      second(c.Get(ctx, NewID())),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", call, err)
		}
	}
}

// What cannot be opened says why and what to do, and never shows a password.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	check.OK(t, os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600))
	for _, c := range []struct {
		dsn  string
		want error
		says string
	}{
		{"sqlite:" + filepath.Join(dir, "empty.db"), ErrNotMigrated, "dbq migrate"},
		{"sqlite:" + filepath.Join(dir, "no", "such", "hush.db"), ErrUnavailable, "no"},
		{"sqlite:" + garbage, ErrDSN, "is not a SQLite database"},
		{"sqlite:" + dir, nil, "cannot open"},
		{"sqlite:", ErrDSN, "no file named"},
		{"sqlite:q.db?synchronous=off&password=hush", ErrDSN, ""},
		{"sqlite:q.db?password=hush", ErrDSN, "unknown parameter"},
		{"sqlite:q.db?busy_timeout=%zz&password=hush", ErrDSN, ""},
		{"postgres://app:hush@h/d", ErrUnknownScheme, `import _ "github.com/dbq-go/dbq/dialect/postgres"`},
		{"MariaDB:app:hush@dbq/dialect", ErrUnknownScheme, `import _ "github.com/dbq-go/dbq/dialect/mysql"`},
		{"oracle://app:hush@h/d", ErrUnknownScheme, `import _ "github.com/dbq-go/dbq/dialect/oracle"`},
		{"oracle", ErrUnknownScheme, "does not begin with one"},
		{"nonsense://app:hush@h/d", ErrUnknownScheme, "sqlite"},
		{"app:hush@h/d", ErrUnknownScheme, ""},
		{"", ErrUnknownScheme, "use one of"},
	} {
		_, err := Open(t.Context(), c.dsn)
		var e *Error
		if !errors.As(err, &e) || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Open(%q): got %v, want %v", c.dsn, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "hush") && !strings.Contains(c.dsn, "hush.db") {
			t.Errorf("Open(%q) shows the password: %v", c.dsn, err)
		}
		if _, _, err := Migrate(t.Context(), c.dsn); c.want != nil && c.want != ErrNotMigrated && !errors.Is(err, c.want) {
			t.Errorf("Migrate(%q): got %v, want %v", c.dsn, err, c.want)
		}
	}
}

func TestTablesOfAnotherVersionAreNotTouched(t *testing.T) {
	t.Parallel()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "q.db")
	c, err := Open(t.Context(), dsn, WithMigrate())
	check.OK(t, err)
	const future = "INSERT INTO dbq_migration VALUES (99, 'from the future', 99, 0)"
	if _, err := c.DB().ExecContext(t.Context(), future); err != nil {
		t.Fatal(err)
	}
	c.Close()
	pool, err := sqlite.Open(t.Context(), dsn, nil)
	check.OK(t, err)
	defer pool.Close()
	for name, err := range map[string]error{
		"open":              second(Open(t.Context(), dsn)),
		"open with migrate": second(Open(t.Context(), dsn, WithMigrate())),
		"new with migrate":  second(New(t.Context(), pool.Write, sqlite.Dialect{}, WithMigrate())),
	} {
		if !errors.Is(err, ErrSchemaNew) || !strings.Contains(err.Error(), "99") {
			t.Errorf("%s: got %v, want ErrSchemaNew", name, err)
		}
	}
}
