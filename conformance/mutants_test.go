package conformance

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq/conformance/cases"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
)

// A mutant is SQLite's dialect with one defect. Each of the named cases must catch it, and must find nothing
// wrong with the sound dialect: a test of the tests.
type mutant struct {
	name   string
	edit   func(st *dialect.Statements, n dialect.Names) // edits the statements
	schema func(text string) string                      // edits a statement of the migrations
	// checkout is around the sound one, which it gets as take.
	checkout func(
		ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest, take takeFunc,
	) (dialect.CheckoutResult, error)
	// caught are full names of cases, each of which must fail.
	caught []string
	// races are cases that find it by chance, each of which must within raceFor.
	races []string
}

type takeFunc func(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) (dialect.CheckoutResult, error)

type mutantDialect struct {
	sqlite.Dialect
	m mutant
}

func (d mutantDialect) Statements(n dialect.Names) dialect.Statements {
	st := d.Dialect.Statements(n)
	if d.m.edit != nil {
		d.m.edit(&st, n)
	}
	return st
}

func (d mutantDialect) Migrations(n dialect.Names) []dialect.Migration {
	ms := d.Dialect.Migrations(n)
	if d.m.schema == nil {
		return ms
	}
	changed := false
	for _, m := range ms {
		for i, text := range m.Statements {
			m.Statements[i] = d.m.schema(text)
			changed = changed || m.Statements[i] != text
		}
	}
	if !changed {
		panic("the mutant's edit changes no migration")
	}
	return ms
}

func (d mutantDialect) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	if d.m.checkout != nil {
		return d.m.checkout(ctx, s, r, d.Dialect.Checkout)
	}
	return d.Dialect.Checkout(ctx, s, r)
}

// stale says why a mutant does not fit the dialect's statements any more.
func (m mutant) stale() (reason any) {
	defer func() { reason = recover() }()
	d, names := mutantDialect{m: m}, dialect.Names{Prefix: "dbq_"}
	d.Statements(names)
	d.Migrations(names)
	return nil
}

// registerMutants makes each mutant a scheme of its own, once for the process.
var registerMutants = sync.OnceFunc(func() {
	for _, m := range mutants() {
		scheme := "mutant-" + m.name
		dialect.Register(dialect.Driver{Schemes: []string{scheme}, Dialect: mutantDialect{m: m},
			Open: func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
				return sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, scheme), nil)
			}})
	}
})

// runNamed runs cases of the suite on a scheme and returns the result of each.
func runNamed(t *testing.T, scheme string, names []string) []Result {
	s := newSuite(Harness{DSN: func(dir string) string { return scheme + ":" + filepath.Join(dir, "queue.db") }, Seed: 1})
	s.dir, s.patience = t.TempDir(), mutantPatience
	var out []Result
	for _, c := range cases.All() {
		if slices.Contains(names, c.FullName()) {
			out = append(out, s.run(t.Context(), c, dialect.CAS, t.TempDir(), nil))
		}
	}
	if len(out) != len(names) {
		t.Fatalf("%d of the cases %q exist", len(out), names)
	}
	return out
}

// mutantPatience is the patience of the cases here: some mutants make a case wait for what never comes. The sound
// dialect passes with it, too, so that no mutant is caught for want of it.
const mutantPatience = 5 * time.Second

// raceFor is how long a case that finds a mutant by chance is repeated. On a quiet machine it needs a few seconds.
const raceFor = 3 * time.Minute

// catch wants a case to fail by its law: at once, or within the time that it may be repeated.
func catch(t *testing.T, m mutant, name string, repeat time.Duration) {
	for runs, start := 1, time.Now(); ; runs++ {
		r := runNamed(t, "mutant-"+m.name, []string{name})[0]
		if slices.ContainsFunc(r.Failures, byLaw) {
			t.Logf("%s caught it in %v, in run %d: %s", name, r.Duration, runs, r.Failures[0])
			return
		}
		if len(r.Failures) > 0 {
			t.Errorf("%s failed, and not by its law: %q", name, r.Failures)
			return
		}
		if time.Since(start) >= repeat {
			t.Errorf("%s passed in %d runs, want it to fail", name, runs)
			return
		}
	}
}

// byLaw reports whether a failure is the verdict of a law. That a case's time was up is none.
func byLaw(failure string) bool {
	return !strings.HasPrefix(failure, "panic:") && !strings.Contains(failure, "SQL logic error") &&
		!strings.Contains(failure, "deadline exceeded")
}

func TestMutantsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it tests the suite, not a dialect")
	}
	registerMutants()
	var all []string
	for _, m := range mutants() {
		for _, name := range slices.Concat(m.caught, m.races) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if reason := m.stale(); reason != nil {
				t.Fatal(reason)
			}
			for _, name := range slices.Concat(m.caught, m.races) {
				repeat := time.Duration(0)
				if slices.Contains(m.races, name) {
					repeat = raceFor
				}
				catch(t, m, name, repeat)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		for _, r := range runNamed(t, "sqlite", all) {
			if !r.Passed() {
				t.Errorf("%s on the sound dialect: %q %s", r.Case.FullName(), r.Failures, r.Skipped)
			}
		}
	})
}

// must replaces what a pattern finds in a text. It has to find something: an edit that changes nothing would prove
// nothing.
func must(text *string, pattern, new string) {
	find := regexp.MustCompile(pattern)
	if !find.MatchString(*text) {
		panic("the mutant's edit finds no " + pattern + " in: " + *text)
	}
	*text = find.ReplaceAllLiteralString(*text, new)
}

// mustIn is must for an entry of a map.
func mustIn(m map[string]dialect.Batch, key, pattern, new string) {
	b := m[key]
	must(&b.SQL, pattern, new)
	m[key] = b
}

// clock is how SQLite's texts name the database's clock.
const clock = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"

// The conditions of the statements, as patterns, since a hint to SQLite's planner may stand before a name.
var (
	anyClock  = regexp.QuoteMeta(clock)
	theFence  = ` AND \S*fence = \S*d\.column2`
	theState  = ` AND \S*state = 1`
	leaseOver = ` AND \S*lease_until <= ` + anyClock
)

func mutants() []mutant {
	return append(slices.Concat(listMutants(), textMutants(), limitMutants()), []mutant{
		{name: "settle-without-fence",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Settle.SQL, theFence, "")
				mustIn(st.Private, "complete one", ` AND \+fence = :fence`, "")
			},
			caught: []string{"Lease/StaleFenceCannotSettle"},
			races:  []string{"Contention/ExpiryWhileComplete"}},
		{name: "extend-without-fence",
			edit: func(st *dialect.Statements, n dialect.Names) {
				must(&st.Extend.SQL, theFence, "")
			},
			caught: []string{"Lease/StaleFenceCannotSettle"}},
		{name: "remove-without-fence",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Remove.SQL, theFence, "")
				mustIn(st.Private, "remove one", ` AND \+fence = :fence`, "")
			},
			caught: []string{"Lease/StaleFenceCannotSettle"}},
		{name: "settle-without-state",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Settle.SQL, theState, "")
				mustIn(st.Private, "complete one", ` AND \+state = 1`, "")
			},
			caught: []string{"Lease/SettlingTwiceIsLeaseLost"}},
		{name: "overlapping-leases",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				mustIn(st.Private, "expired", leaseOver, "")
				mustIn(st.Private, "take over", leaseOver, "")
				mustIn(st.Private, "any", leaseOver, "")
			},
			caught: []string{"Lease/ExtendKeepsOthersOut"}},
		{name: "lease-half-as-long",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				mustIn(st.Private, "take", `:lease`, ":lease / 2")
			},
			caught: []string{"Lease/HolderEndsNoLaterThanTheDatabase"},
			races:  []string{"Contention/ExpiryWhileComplete"}},
		{name: "fence-stands-still",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				mustIn(st.Private, "take over", `fence = fence \+ 1`, "fence = fence")
			},
			caught: []string{"Lease/StaleFenceCannotSettle"},
			races:  []string{"Contention/ExpiryWhileComplete"}},
		{name: "checkout-forgets-one",
			checkout: func(
				ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest, take takeFunc,
			) (dialect.CheckoutResult, error) {
				leased, err := take(ctx, s, r)
				n := len(leased.Rows)
				leased.Rows = leased.Rows[:max(min(n, 1), n-1)]
				return leased, err
			},
			caught: []string{"Checkout/AtMostN", "Checkout/TakesAllUpToItsLimit"}},
		{name: "checkout-removes-one",
			checkout: func(
				ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest, take takeFunc,
			) (dialect.CheckoutResult, error) {
				leased, err := take(ctx, s, r)
				if err == nil && len(leased.Rows) > 4 {
					leased.Rows = leased.Rows[1:]
					err = s.Do(ctx, func(ctx context.Context, c dialect.Conn) error {
						task := s.Names.Table("task")
						_, err := c.Exec(ctx, "DELETE FROM "+task+" WHERE rowid = (SELECT max(rowid) FROM "+task+" WHERE state = 0)")
						return err
					})
				}
				return leased, err
			},
			races: []string{"Contention/NoLostTask"}},
		{name: "mark-used-again",
			checkout: func(
				ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest, take takeFunc,
			) (dialect.CheckoutResult, error) {
				r.Holder = "worker"
				leased, err := take(ctx, s, r)
				if err != nil || len(leased.Rows) == 0 {
					return leased, err
				}
				err = s.Do(ctx, func(ctx context.Context, c dialect.Conn) (err error) {
					leased.Rows, err = s.Query(ctx, c, s.Statements.Held, dialect.Args{"queue": r.Queue, "holder": r.Holder})
					return err
				})
				return leased, err
			},
			caught: []string{"Checkout/NewTokenEachTime"}},
		{name: "attempts-not-counted",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				mustIn(st.Private, "take over", `THEN 1 ELSE 0`, "THEN 0 ELSE 0")
			},
			caught: []string{"Transitions/checkout/PROCESSING-expired"}},
		{name: "exhausted-attempts-go-on",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				mustIn(st.Private, "take over", "attempt >= max_attempts AND", "attempt > 30000 AND")
			},
			caught: []string{"Transitions/checkout/PROCESSING-expired-exhausted"}},
		{name: "duplicates-allowed",
			schema: func(text string) string {
				if !strings.Contains(text, "reference, queue") {
					return text
				}
				return strings.Replace(text, "CREATE UNIQUE INDEX", "CREATE INDEX", 1)
			},
			caught: []string{"Enqueue/DuplicateReference"},
			races:  []string{"Contention/DuplicateEnqueueRace"}},
		{name: "duplicate-takes-the-place",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Insert.SQL, "INSERT INTO", "INSERT OR REPLACE INTO")
				must(&st.Insert.SQL, "ON CONFLICT DO NOTHING\n", "")
				mustIn(st.Private, "insert one", "INSERT INTO", "INSERT OR REPLACE INTO")
				mustIn(st.Private, "insert one", "ON CONFLICT DO NOTHING", "")
			},
			caught: []string{"Enqueue/DuplicateReference"},
			races:  []string{"Contention/DuplicateEnqueueRace"}},
		{name: "due-an-hour-late",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Insert.SQL, anyClock+` \+ d\.column7`, clock+" + 3600000000 + d.column7")
				for _, name := range []string{"insert one", "insert one new", "insert uniform"} {
					mustIn(st.Private, name, anyClock+` \+ :delay`, clock+" + 3600000000 + :delay")
				}
			},
			caught: []string{"Checkout/AtMostN", "Enqueue/Minimal"}},
		{name: "due-an-hour-early",
			edit: func(st *dialect.Statements, n dialect.Names) {
				early := "due <= " + clock + " + 3600000000"
				mustIn(st.Private, "any", `due <= `+anyClock, early)
				mustIn(st.Private, "ready", `due <= `+anyClock, early)
			},
			caught: []string{"Enqueue/DelayedUntilDue", "Checkout/FutureIsNotTaken"}},
		{name: "result-not-kept",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Settle.SQL, `ELSE d\.column7 END`, "ELSE NULL END")
			},
			caught: []string{"RoundTrip/LongResultIsCut", "RoundTrip/ErrorText"}},
		{name: "empty-becomes-nil",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Payload, `length\(payload\) AS payload_size`, "NULL AS payload_size")
				mustIn(st.Private, "ready", `length\(t\.payload\) AS payload_size`, "NULL AS payload_size")
			},
			caught: []string{"RoundTrip/EmptyIsNotNil"}},
		{name: "purge-takes-all",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Purge.SQL, `\{guard\}`, "1 = 1")
				st.Purgeable = st.Purge
				must(&st.Purgeable.SQL, "DELETE", "SELECT id, queue, task_key, state")
				must(&st.Purgeable.SQL, `(?s)\s*RETURNING.*`, "")
			},
			caught: []string{"Transitions/purge/CREATED-due", "Transitions/purge/PROCESSING-leased"}},
		{name: "revoke-keeps-fence",
			edit: func(st *dialect.Statements, _ dialect.Names) {
				must(&st.Move.SQL, `\{set\}`, "{set}, fence = fence") // SQLite takes the last one
			},
			caught: []string{"Transitions/revoke/PROCESSING-leased"}},
		{name: "priority-ignored",
			edit: func(st *dialect.Statements, n dialect.Names) {
				each := `(?s)FROM \(\s+SELECT \* FROM \(\s+SELECT rowid.*\n\s+LIMIT \+:limit\)`
				all := "FROM (SELECT rowid FROM " +
					n.Table("task") + " WHERE queue = :queue AND due <= {now} ORDER BY due, id LIMIT +:limit)"
				mustIn(st.Private, "ready", each, strings.Replace(all, "{now}", clock, 1))
			},
			caught: []string{"Checkout/PriorityFirst"}},
	}...)
}
