package store

import (
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// id is a task's id for these tests.
func id(last byte) uuid.UUID { return uuid.UUID{15: last} }

// at is a time of day of the tests, in microseconds.
func at(clock string) int64 {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-03-04 "+clock)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	key := func(queue string, u Unique, due int64) *uniqueKey {
		b := (*Store)(nil).newUniqueBatch(queue, nil, true)
		b.now = at("12:00:00")
		r := InsertRow{Unique: &u}
		if due != 0 {
			r.RunAt = time.UnixMicro(due)
		}
		k := b.key(&r)
		if u.Period > 0 && r.RunAt.UnixMicro() != max(due, b.now) {
			t.Errorf("%+v: the task is due at %v, not at the time by which its period was chosen", u, r.RunAt)
		}
		return k
	}
	daily := Unique{Key: "k", Period: 24 * time.Hour}
	for _, pair := range []struct {
		name  string
		x, y  *uniqueKey
		equal bool
	}{
		{"the same", key("q", Unique{Key: "k"}, 0), key("q", Unique{Key: "k"}, at("13:00:00")), true},
		{"another queue", key("q", Unique{Key: "k"}, 0), key("p", Unique{Key: "k"}, 0), false},
		{"another key", key("q", Unique{Key: "k"}, 0), key("q", Unique{Key: "l"}, 0), false},
		{"another case", key("q", Unique{Key: "k"}, 0), key("q", Unique{Key: "K"}, 0), false},
		{"another scope", key("q", Unique{Key: "k"}, 0), key("q", Unique{Key: "k", Unfinished: true}, 0), false},
		{"a queue that ends like the scope", key("q", Unique{Key: "pending k"}, 0), key("q pending", Unique{Key: "k"}, 0),
			false},
		{"a space in the queue or the key", key("a", Unique{Key: "b c"}, 0), key("a b", Unique{Key: "c"}, 0), false},
		{"the same day", key("q", daily, 0), key("q", daily, at("23:59:59")), true},
		{"the next day", key("q", daily, at("23:59:59")), key("q", daily, at("23:59:59")+1e6), false},
		{"a period of another length", key("q", daily, 0), key("q", Unique{Key: "k", Period: 12 * time.Hour}, 0), false},
		{"the states do not matter to a period", key("q", daily, 0),
			key("q", Unique{Key: "k", Unfinished: true, Period: 24 * time.Hour}, 0), true},
		{"nor does what follows a conflict", key("q", Unique{Key: "k"}, 0),
			key("q", Unique{Key: "k", OnConflict: Replace}, 0), true},
	} {
		if (pair.x.id == pair.y.id) != pair.equal {
			t.Errorf("%s: %+v and %+v, want equal ids: %v", pair.name, pair.x, pair.y, pair.equal)
		}
		if len(pair.x.scope) > 60 || len(pair.y.scope) > 60 {
			t.Errorf("%s: the scopes %q and %q are longer than their column", pair.name, pair.x.scope, pair.y.scope)
		}
	}
	if k := key("q", daily, 0); k.periodEnd != at("00:00:00")+24*3600e6 || k.expires < k.periodEnd {
		t.Errorf("the period of %+v does not end at midnight, or its key expires before that", k)
	}
	longest := Unique{Key: "k", Period: 999*time.Hour + 59*time.Minute + 59*time.Second + 999999*time.Microsecond}
	if k := key("q", longest, time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC).UnixMicro()); len(k.scope) > 60 {
		t.Errorf("the scope %q is longer than its column", k.scope)
	}
}

func TestUniqueExcludes(t *testing.T) {
	t.Parallel()
	due, none := new(at("12:00:00")), (*int64)(nil)
	in := func(s state.State) *int64 { return new(int64(s)) }
	for _, c := range []struct {
		name    string
		key     uniqueKey
		expires int64
		state   *int64
		due     *int64
		want    bool
	}{
		{"a task that waits", uniqueKey{}, 1, in(state.Created), due, true},
		{"a task that waits for a retry", uniqueKey{}, 1, in(state.Error), due, true},
		{"a task that runs", uniqueKey{}, 1, in(state.Processing), none, false},
		{"a task that runs, until it ends", uniqueKey{unfinished: true}, 1, in(state.Processing), none, true},
		{"a parked task", uniqueKey{unfinished: true}, 1, in(state.Error), none, false},
		{"a task that has completed", uniqueKey{unfinished: true}, 1, in(state.Completed), none, false},
		{"a task in POISON", uniqueKey{unfinished: true}, 1, in(state.Poison), none, false},
		{"a task that was removed", uniqueKey{unfinished: true}, 1, nil, none, false},
		{"a period, whose task was removed", uniqueKey{periodEnd: 1}, 1, nil, none, true},
		{"a period, whose task has completed", uniqueKey{periodEnd: 1}, 1, in(state.Completed), none, true},
		{"a period that was given up", uniqueKey{periodEnd: 1}, 0, in(state.Created), due, false},
	} {
		if got := c.key.excludes(c.expires, c.state, c.due); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// A uniqueRow is a row of one key of a batch.
type uniqueRow struct {
	how     OnConflict
	due     string
	maxWait time.Duration
}

func TestUniqueDecides(t *testing.T) {
	t.Parallel()
	const now, created = "12:00:00", "11:00:00"
	waits := dialect.Row{ID: id(100), State: state.Created, Due: new(at("12:30:00")), Created: at(created)}
	failed := waits
	failed.State = state.Error
	overdue := waits
	overdue.Due = new(at("11:30:00"))
	runs := dialect.Row{ID: id(100), State: state.Processing, Created: at(created)}
	for _, c := range []struct {
		name   string
		holder *dialect.Row // the task that has the key; nil is none
		rows   []uniqueRow
		added  []int
		out    []Inserted // of the rows that are not added
		due    string     // of the task that has the key afterwards
		by     int        // the row that replaces it, or 0; rows begin with 1
	}{
		{"a free key takes the first", nil, []uniqueRow{{Keep, "12:01:00", 0}, {Keep, "12:02:00", 0}},
			[]int{0}, []Inserted{{}, {ID: id(1), Duplicate: true}}, "12:01:00", 0},
		{"rows of a batch replace the first, in their order", nil,
			[]uniqueRow{{Keep, "12:01:00", 0}, {Replace, "12:03:00", 0}, {Replace, "12:02:00", 0}},
			[]int{0}, []Inserted{{}, {ID: id(1), Replaced: true}, {ID: id(1), Replaced: true}}, "12:02:00", 0},
		{"rows of a batch never make the first earlier", nil,
			[]uniqueRow{{Keep, "12:05:00", 0}, {Debounce, "12:03:00", 0}},
			[]int{0}, []Inserted{{}, {ID: id(1), Debounced: true}}, "12:05:00", 0},
		{"a waiting task is kept", &waits, []uniqueRow{{Keep, "12:01:00", 0}},
			nil, []Inserted{{ID: id(100), Duplicate: true}}, "", 0},
		{"a waiting task is replaced", &waits, []uniqueRow{{Replace, "12:01:00", 0}},
			nil, []Inserted{{ID: id(100), Replaced: true}}, "12:01:00", 1},
		{"the last replacement counts", &waits, []uniqueRow{{Replace, "12:01:00", 0}, {Replace, "12:02:00", 0}},
			nil, []Inserted{{ID: id(100), Replaced: true}, {ID: id(100), Replaced: true}}, "12:02:00", 2},
		{"a replacement keeps the backoff of a task that failed", &failed, []uniqueRow{{Replace, "12:01:00", 0}},
			nil, []Inserted{{ID: id(100), Replaced: true}}, "12:30:00", 1},
		{"a waiting task is postponed", &waits, []uniqueRow{{Debounce, "12:40:00", 0}},
			nil, []Inserted{{ID: id(100), Debounced: true}}, "12:40:00", 0},
		{"it is never made earlier", &waits, []uniqueRow{{Debounce, "12:10:00", 0}},
			nil, []Inserted{{ID: id(100), Debounced: true}}, "12:30:00", 0},
		{"it is postponed up to MaxWait after its creation", &waits, []uniqueRow{{Debounce, "14:00:00", 2 * time.Hour}},
			nil, []Inserted{{ID: id(100), Debounced: true}}, "13:00:00", 0},
		{"a MaxWait that has passed is now, which is earlier", &waits, []uniqueRow{{Debounce, "14:00:00", time.Minute}},
			nil, []Inserted{{ID: id(100), Debounced: true}}, "12:30:00", 0},
		{"or to now, if that is later", &overdue, []uniqueRow{{Debounce, "14:00:00", time.Minute}},
			nil, []Inserted{{ID: id(100), Debounced: true}}, now, 0},
		{"a task that runs is not changed", &runs, []uniqueRow{{Replace, "12:01:00", 0}, {Debounce, "12:01:00", 0}},
			nil, []Inserted{{ID: id(100), Duplicate: true}, {ID: id(100), Duplicate: true}}, "", 0},
	} {
		b := (*Store)(nil).newUniqueBatch("q", nil, true)
		b.now = at(now)
		k := &uniqueKey{unfinished: true, winner: -1, fresh: c.holder == nil}
		if c.holder != nil {
			k.row = sqlrun.KeyRow{Task: c.holder.ID, Expires: 1}
			b.locked[c.holder.ID] = *c.holder
		}
		for i, r := range c.rows {
			b.rows = append(b.rows, InsertRow{ID: id(byte(i + 1)), RunAt: time.UnixMicro(at(r.due)),
				Unique: &Unique{Key: "k", OnConflict: r.how, MaxWait: r.maxWait}})
			k.rows = append(k.rows, i)
		}
		b.keys, b.out = []*uniqueKey{k}, make([]Inserted, len(b.rows))
		check.OK(t, b.decide(t.Context(), nil))
		if !slices.Equal(b.added, c.added) || !slices.Equal(b.out, c.out) {
			t.Errorf("%s: added %v, outcome %+v; want %v, %+v", c.name, b.added, b.out, c.added, c.out)
		}
		change := b.changes[id(100)]
		switch {
		case c.due == "":
			if change != nil {
				t.Errorf("%s: the task is changed: %+v", c.name, change)
			}
		case c.holder == nil:
			if got := b.rows[0].RunAt.UnixMicro(); got != at(c.due) {
				t.Errorf("%s: due at %v, want %s", c.name, time.UnixMicro(got).UTC(), c.due)
			}
		case change == nil || change.due != at(c.due) || (change.by != nil) != (c.by > 0):
			t.Errorf("%s: changed to %+v, want due at %s", c.name, change, c.due)
		case c.by > 0 && change.by.ID != id(byte(c.by)):
			t.Errorf("%s: replaced by %v, want row %d", c.name, change.by.ID, c.by)
		}
	}
}

func TestUniqueRepeatedEnqueueIsNoConflict(t *testing.T) {
	t.Parallel()
	b := (*Store)(nil).newUniqueBatch("q", []InsertRow{
		{ID: id(1), Unique: &Unique{Key: "k", OnConflict: Replace}}}, true)
	waits := dialect.Row{ID: id(1), State: state.Created, Due: new(at("12:30:00"))}
	b.locked[waits.ID] = waits
	b.keys = []*uniqueKey{{winner: -1, rows: []int{0}, row: sqlrun.KeyRow{Task: waits.ID, Expires: 1}}}
	check.OK(t, b.decide(t.Context(), nil))
	if want := (Inserted{ID: id(1), Duplicate: true}); b.out[0] != want || len(b.changes) > 0 || len(b.added) > 0 {
		t.Errorf("got %+v, changes %v, added %v", b.out[0], b.changes, b.added)
	}
}

// Without locks, a batch of dbq's own decides only about keys whose rows all give way.
func TestUniqueGivesWay(t *testing.T) {
	t.Parallel()
	waits := &sqlrun.KeyRow{Task: id(100), Expires: 1, State: new(int64(state.Created)), Due: new(at("12:00:00"))}
	ended := &sqlrun.KeyRow{Task: id(100), Expires: 1, State: new(int64(state.Completed))}
	for _, c := range []struct {
		name  string
		found *sqlrun.KeyRow
		hows  []OnConflict
		want  bool
	}{
		{"all give way", waits, []OnConflict{Keep, Keep}, true},
		{"one replaces", waits, []OnConflict{Keep, Replace}, false},
		{"one postpones", waits, []OnConflict{Debounce}, false},
		{"the task has ended", ended, []OnConflict{Keep}, false},
		{"the key is new", nil, []OnConflict{Keep}, false},
	} {
		rows := make([]InsertRow, len(c.hows))
		k := &uniqueKey{found: c.found}
		for i, how := range c.hows {
			rows[i] = InsertRow{ID: id(byte(i + 1)), Unique: &Unique{Key: "k", OnConflict: how}}
			k.rows = append(k.rows, i)
		}
		b := (*Store)(nil).newUniqueBatch("q", rows, true)
		if got := b.givesWay(k); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		for i, out := range b.out {
			if c.want != (out == Inserted{ID: id(100), Duplicate: true}) {
				t.Errorf("%s: row %d has the outcome %+v", c.name, i, out)
			}
		}
	}
}
