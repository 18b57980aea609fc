package cases

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func errorCases() []Case {
	cases := []Case{
		{Name: "InvalidTask", run: errorsInvalidTask,
			Law: "Each invalid field of a task has its own error, which is also ErrInvalid, and nothing is added."},
		{Name: "InvalidQueueName", run: errorsQueueName,
			Law: "Every call on a queue with an invalid name returns ErrQueueName."},
		{Name: "InvalidCheckout", run: errorsCheckout,
			Law: "A checkout with an invalid number of tasks or lease time is refused and takes nothing."},
		{Name: "InvalidLease", run: errorsLease,
			Law: "A zero lease, a lease of another queue, or an invalid duration settles and extends nothing."},
		{Name: "InvalidFilter", run: errorsFilter,
			Law: "An invalid filter is refused and changes nothing."},
		{Name: "InvalidOption", run: errorsOption,
			Law: "Open returns ErrOption for an invalid option, and creates nothing."},
		{Name: "UnknownScheme", run: errorsScheme,
			Law: "Opening a DSN whose dialect is not registered returns ErrUnknownScheme, which names the registered ones."},
		{Name: "ClosedClient", run: errorsClosed,
			Law: "Every call on a closed client returns ErrClosed and changes nothing; closing twice is not an error."},
		{Name: "CancelledContext", run: errorsCancelled,
			Law: "Every call whose context has ended returns the context's error and changes nothing."},
		{Name: "MissingTable", run: errorsMissingTable,
			Law: "When the tables of an open client are dropped, its calls return ErrNotMigrated, which wraps the driver's " +
				"error."},
		{Name: "ErrorFields", run: errorsFields,
			Law: "An error names the operation, the task and the queue."},
		{Name: "NoPasswordInAnyError", run: errorsPassword,
			Law: "No error of Open, and no client, shows or contains the password of the DSN."},
		{Name: "UnreachableServer", run: errorsUnreachable,
			Law: "Opening a server that cannot be reached returns ErrUnavailable."},
	}
	for i := range cases {
		cases[i].Once = true
	}
	return inGroup("Errors", cases...)
}

// wantInvalid checks that an error is its own sentinel, ErrInvalid, and a *dbq.Error.
func (t *test) wantInvalid(what string, err, want error) {
	t.wantErr(what, err, want)
	t.wantErr(what, err, dbq.ErrInvalid)
	var e *dbq.Error
	if !errors.As(err, &e) || e.Op == "" {
		t.Errorf("%s: got %#v, want a *dbq.Error that says what was done", what, err)
	}
}

// badTexts are invalid as a queue, a reference or a kind.
func badTexts(most int) map[string]string {
	return map[string]string{
		"too long": strings.Repeat("é", most+1), "with a NUL": "a\x00b", "with a line feed": "a\nb", "with DEL": "a\x7f",
		"with a C1 control": "a\u0085b", "not UTF-8": "a\xff", "half a character": "\xf0\x9f\x98",
	}
}

func errorsInvalidTask(t *test) {
	c := t.open(dbq.WithMaxPayload(1000))
	q := c.Queue("q")
	type badTask struct {
		nt   dbq.NewTask
		want error
	}
	bad := map[string]badTask{
		"priority -1":            {dbq.NewTask{Priority: -1}, dbq.ErrPriority},
		"priority 10":            {dbq.NewTask{Priority: dbq.MaxPriority + 1}, dbq.ErrPriority},
		"attempts -1":            {dbq.NewTask{MaxAttempts: -1}, dbq.ErrMaxAttempts},
		"too many attempts":      {dbq.NewTask{MaxAttempts: dbq.MaxMaxAttempts + 1}, dbq.ErrMaxAttempts},
		"payload over the limit": {dbq.NewTask{Payload: make([]byte, 1001)}, dbq.ErrPayloadSize},
		"both RunAt and Delay":   {dbq.NewTask{RunAt: time.Now(), Delay: time.Second}, dbq.ErrDelay},
		"negative delay":         {dbq.NewTask{Delay: -1}, dbq.ErrDelay},
		"delay of 101 years":     {dbq.NewTask{Delay: dbq.MaxDelay + 1}, dbq.ErrDelay},
		"run time before 1970":   {dbq.NewTask{RunAt: time.Unix(-1, 0)}, dbq.ErrDelay},
		"run time in 10000":      {dbq.NewTask{RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, dbq.ErrDelay},
		"id of version 4":        {dbq.NewTask{ID: uuid.New()}, dbq.ErrID},
		"headers over the limit": {dbq.NewTask{Headers: map[string]string{"k": strings.Repeat("x", dbq.MaxHeaders)}},
			dbq.ErrHeaders},
		"header without a name":    {dbq.NewTask{Headers: map[string]string{"": "v"}}, dbq.ErrHeaders},
		"header with a line end":   {dbq.NewTask{Headers: map[string]string{"k\nfence": "v"}}, dbq.ErrHeaders},
		"header that is not UTF-8": {dbq.NewTask{Headers: map[string]string{"k": "\xff"}}, dbq.ErrHeaders},
	}
	for what, text := range badTexts(dbq.MaxReference) {
		bad["reference "+what] = badTask{dbq.NewTask{Reference: text}, dbq.ErrReference}
	}
	for what, text := range badTexts(dbq.MaxKind) {
		bad["kind "+what] = badTask{dbq.NewTask{Kind: text}, dbq.ErrKind}
	}
	for what, b := range bad {
		_, err := q.Enqueue(t.ctx, b.nt)
		t.wantInvalid(what, err, b.want)
		_, err = q.EnqueueMany(t.ctx, []dbq.NewTask{{}, b.nt})
		t.wantInvalid(what+", one of two", err, b.want)
	}
	_, err := q.EnqueueMany(t.ctx, make([]dbq.NewTask, dbq.MaxBulk+1))
	t.wantInvalid("too many tasks at once", err, dbq.ErrCount)
	for what, text := range badTexts(dbq.MaxReference) {
		_, err := q.Find(t.ctx, text)
		t.wantInvalid("find of a reference "+what, err, dbq.ErrReference)
	}
	tx := t.beginTx(c)
	_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{Priority: -1})
	t.wantInvalid("priority -1 in a transaction", err, dbq.ErrPriority)
	t.must(tx.Rollback())
	if n := t.count(c, ""); n != 0 {
		t.Errorf("%d tasks are there, want none", n)
	}
}

func errorsQueueName(t *test) {
	c := t.open()
	names := badTexts(dbq.MaxQueueName)
	names["empty"] = ""
	for what, name := range names {
		for _, call := range queueCalls(c.Queue(name), dbq.Lease{Task: dbq.NewID(), Queue: name, Fence: 1}) {
			if call.tx == nil {
				t.wantInvalid(call.name+" on a queue name "+what, call.plain(t.ctx), dbq.ErrQueueName)
			}
		}
	}
	if n := t.count(c, ""); n != 0 {
		t.Errorf("%d tasks are there, want none", n)
	}
}

func errorsCheckout(t *test) {
	c := t.open()
	q := c.Queue("q")
	before := t.get(c, t.enqueue(q, dbq.NewTask{}))
	for _, n := range []int{0, -1, dbq.MaxCheckout + 1} {
		_, err := q.Checkout(t.ctx, n, long)
		t.wantInvalid(fmt.Sprintf("checkout of %d", n), err, dbq.ErrCount)
	}
	for _, d := range []time.Duration{0, -time.Second, dbq.MinLease - 1, dbq.MaxLease + 1, 365 * 24 * time.Hour} {
		_, err := q.Checkout(t.ctx, 1, d)
		t.wantInvalid(fmt.Sprintf("checkout for %v", d), err, dbq.ErrLeaseTime)
	}
	t.wantUnchanged("a refused checkout", c, before)
}

func errorsLease(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)
	for _, call := range queueCalls(c.Queue("other"), task.Lease) {
		if call.settles && call.tx == nil {
			t.wantInvalid(call.name+" through another queue", call.plain(t.ctx), dbq.ErrWrongQueue)
		}
	}
	for _, call := range queueCalls(q, dbq.Lease{}) {
		if call.settles && call.tx == nil {
			t.wantErr(call.name+" with the zero lease", call.plain(t.ctx), dbq.ErrLeaseLost)
		}
	}
	for _, d := range []time.Duration{0, -time.Second, dbq.MaxLease + 1} {
		_, err := q.Extend(t.ctx, task.Lease, d)
		t.wantInvalid(fmt.Sprintf("extend by %v", d), err, dbq.ErrLeaseTime)
	}
	for _, d := range []time.Duration{-1, dbq.MaxDelay + 1} {
		t.wantInvalid(fmt.Sprintf("release for %v", d), q.Settle(t.ctx, task.Lease, dbq.Released(d)), dbq.ErrDelay)
		t.wantInvalid(fmt.Sprintf("retry in %v", d), q.Settle(t.ctx, task.Lease, dbq.RetryIn(d, errBoom)), dbq.ErrDelay)
	}
	t.wantInvalid("retry in 1969", q.Settle(t.ctx, task.Lease, dbq.RetryAt(time.Unix(-1, 0), errBoom)), dbq.ErrDelay)
	_, err := q.SettleMany(t.ctx, []dbq.Settlement{settlement(task.Lease, dbq.Completed(nil)), {}})
	t.wantErr("the zero settlement", err, dbq.ErrLeaseLost)
	_, err = q.SettleMany(t.ctx, make([]dbq.Settlement, dbq.MaxBulk+1))
	t.wantInvalid("too many settlements", err, dbq.ErrCount)
	t.wantUnchanged("a refused call", c, before)
}

func errorsFilter(t *test) {
	c := t.open()
	before := t.get(c, t.enqueue(c.Queue("q"), dbq.NewTask{}))
	for what, b := range map[string]struct {
		f    admin.Filter
		want error
	}{
		"limit -1":           {admin.Filter{Limit: -1}, dbq.ErrCount},
		"limit too large":    {admin.Filter{Limit: dbq.MaxBulk + 1}, dbq.ErrCount},
		"negative age":       {admin.Filter{Limit: 1, InStateFor: -1}, dbq.ErrFilter},
		"unknown state":      {admin.Filter{Limit: 1, States: []dbq.State{9}}, dbq.ErrFilter},
		"state none":         {admin.Filter{Limit: 1, States: []dbq.State{state.None}}, dbq.ErrFilter},
		"bad queue":          {admin.Filter{Limit: 1, Queue: "a\x00"}, dbq.ErrQueueName},
		"kind with a NUL":    {admin.Filter{Limit: 1, Kind: "a\x00"}, dbq.ErrInvalid},
		"reference with NUL": {admin.Filter{Limit: 1, Reference: "a\x00"}, dbq.ErrInvalid},
		"kind not UTF-8":     {admin.Filter{Limit: 1, Kind: "\xff"}, dbq.ErrInvalid},
	} {
		_, err := admin.New(c).List(t.ctx, b.f)
		t.wantInvalid("list with "+what, err, b.want)
		_, err = admin.New(c).OperateMany(t.ctx, admin.Reject, b.f)
		t.wantInvalid("reject with "+what, err, b.want)
	}
	_, err := admin.New(c).OperateMany(t.ctx, admin.Reject, admin.Filter{Queue: "q"})
	t.wantInvalid("reject without a limit", err, dbq.ErrCount)
	t.wantUnchanged("a refused call", c, before)
}

func errorsClosed(t *test) {
	c, other := t.open(), t.open()
	task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	before := t.get(other, task.ID)
	t.must(c.Close())
	t.must(c.Close())
	for _, call := range allCalls(c, task.Lease) {
		t.wantErr(call.name+" on a closed client", t.makeCall(t.ctx, other, call), dbq.ErrClosed)
	}
	t.wantUnchanged("a call on a closed client", other, before)
	if n := t.count(other, ""); n != 1 {
		t.Errorf("%d tasks are there, want 1", n)
	}
}

func errorsCancelled(t *test) {
	c := t.open()
	task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	before := t.get(c, task.ID)
	waiting := t.get(c, t.enqueue(c.Queue("q"), dbq.NewTask{}))
	cancelled, cancel := context.WithCancel(t.ctx)
	cancel()
	late, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, call := range allCalls(c, task.Lease) {
		t.wantErr(call.name+" with a cancelled context", t.makeCall(cancelled, c, call), context.Canceled)
		t.wantErr(call.name+" after its deadline", t.makeCall(late, c, call), context.DeadlineExceeded)
	}
	t.wantUnchanged("a cancelled call", c, before)
	t.wantUnchanged("a cancelled call", c, waiting)
	if n := t.count(c, ""); n != 2 {
		t.Errorf("%d tasks are there, want 2", n)
	}
	_, err := dbq.Open(cancelled, t.DSN, t.options()...)
	t.wantErr("open with a cancelled context", err, context.Canceled)
	_, _, err = dbq.Migrate(cancelled, t.DSN, t.options()...)
	t.wantErr("migrate with a cancelled context", err, context.Canceled)
}

func errorsMissingTable(t *test) {
	c := t.open()
	task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	_, plain := c.DB().ExecContext(t.ctx, "DELETE FROM "+t.Prefix+"nosuchtable")
	t.must(dbq.DropTables(t.ctx, t.DSN, t.options()...))
	for _, call := range allCalls(c, task.Lease) {
		if call.name == "now" {
			continue // asks no table
		}
		err := t.makeCall(t.ctx, c, call)
		t.wantErr(call.name+" without tables", err, dbq.ErrNotMigrated)
		var e *dbq.Error
		if !errors.As(err, &e) || e.Class != dialect.Missing {
			t.Errorf("%s without tables: got %#v, want class missing", call.name, err)
		}
		if err != nil && !wraps(err, reflect.TypeOf(innermost(plain))) {
			t.Errorf("%s without tables: %v does not wrap the driver's error, a %T", call.name, err, innermost(plain))
		}
	}
}

// innermost returns the driver's own error.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// wraps reports whether an error of a type is anywhere in the tree of err.
func wraps(err error, want reflect.Type) bool {
	if reflect.TypeOf(err) == want {
		return true
	}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		return x.Unwrap() != nil && wraps(x.Unwrap(), want)
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			if wraps(e, want) {
				return true
			}
		}
	}
	return false
}

func errorsFields(t *test) {
	c := t.open()
	q := c.Queue("mail")
	id := dbq.NewID()
	l := dbq.Lease{Task: id, Queue: "mail", Fence: 1}
	want := func(err error, op, queue string, task uuid.UUID, parts ...string) {
		var e *dbq.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %#v, want a *dbq.Error", op, err)
			return
		}
		if e.Op != op || e.Queue != queue || e.Task != task || e.Err == nil {
			t.Errorf("got op %q, queue %q, task %s, want %q, %q, %s", e.Op, e.Queue, e.Task, op, queue, task)
		}
		for _, part := range append(parts, "dbq: ", op, queue) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error %q does not say %q", err, part)
			}
		}
	}
	want(q.Complete(t.ctx, l, nil), "complete", "mail", id, id.String())
	want(q.Settle(t.ctx, l, dbq.Parked(nil)), "fail", "mail", id, id.String())
	want(q.Settle(t.ctx, l, dbq.Poisoned(nil)), "poison", "mail", id, id.String())
	want(q.Settle(t.ctx, l, dbq.Released(0)), "release", "mail", id, id.String())
	_, err := q.Extend(t.ctx, l, long)
	want(err, "extend", "mail", id, id.String())
	_, err = q.Enqueue(t.ctx, dbq.NewTask{Priority: 77})
	want(err, "enqueue", "mail", uuid.Nil, "77", "9")
	_, err = q.Checkout(t.ctx, 1, 0)
	want(err, "checkout", "mail", uuid.Nil)
	want(admin.New(c).Operate(t.ctx, admin.Revoke, id), "revoke", "", id, id.String())
	_, err = c.Get(t.ctx, id)
	want(err, "get", "", id, id.String())
	waiting := t.enqueue(q, dbq.NewTask{})
	want(admin.New(c).Operate(t.ctx, admin.Purge, waiting), "purge", "", waiting, "CREATED", "COMPLETED", "POISON")
}
