package dbq

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// held is a task under one fence: a worker may hold a task anew whose old lease it has not given up yet.
type held struct {
	task  uuid.UUID
	fence int64
}

// alikeLeast is how many settlements are worth a statement of their own. One that is alone in its call is, on an engine that has a statement
// for a single row.
const alikeLeast = 16

// kin is what settlements share that are alike.
type kin struct {
	remove bool
	fence  int64
}

// compareKin orders the statements of a batch, the same way in each.
func compareKin(a, b kin) int {
	if a.remove != b.remove {
		if b.remove {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.fence, b.fence)
}

// settling is a batch of settlements, sorted by id so that two batches never wait for each other in a circle.
type settling struct {
	q  *Queue
	ss []Settlement
	parts
	twice map[int]bool // indexes of ss whose lease came before in the same call
	out   []Settled

	patient bool         // it waits for rows that other transactions have locked
	passes  bool         // this try passes them by
	locked  map[int]bool // indexes of ss that it passed by
}

// parts are indexes of settlements by the statements that they go by, each in the order of the ids.
type parts struct {
	update, remove []int
	// alike are those that complete without a result or are removed, by their fence: some engines have faster statements for them.
	alike map[kin][]int
}

func (q *Queue) newSettling(ss []Settlement) (*settling, error) {
	if err := checkQueueName(q.name); err != nil {
		return nil, err
	}
	if len(ss) > MaxBulk {
		return nil, checkCount(len(ss), MaxBulk)
	}
	b := &settling{q: q, ss: ss, twice: map[int]bool{}, parts: parts{alike: map[kin][]int{}}}
	st := q.c.s.Statements
	seen := make(map[held]bool, len(ss))
	for i, s := range ss {
		if err := q.checkLease(s.Lease); err != nil {
			return nil, err
		}
		if err := s.retry.check(); err != nil {
			return nil, err
		}
		if s.event == "" {
			return nil, fmt.Errorf("%w: the zero Settlement; make one with Completed, Failed, Poisoned or Released", ErrInvalid)
		}
		key := held{s.Lease.Task, s.Lease.Fence}
		switch {
		case seen[key]: // which of the two an engine would do is its own choice: send only the first
			b.twice[i] = true
		case s.event == state.Complete && s.result == nil && st.Complete.SQL != "" && (!s.remove || st.RemoveAlike.SQL != ""):
			k := kin{s.remove, s.Lease.Fence}
			b.alike[k] = append(b.alike[k], i)
		case s.remove:
			b.remove = append(b.remove, i)
		default:
			b.update = append(b.update, i)
		}
		seen[key] = true
	}
	alone := len(ss) == 1 && st.Complete.One != "" && !ss[0].remove
	for k, index := range b.alike {
		switch {
		case len(index) >= alikeLeast || alone:
			continue
		case k.remove:
			b.remove = append(b.remove, index...)
		default:
			b.update = append(b.update, index...)
		}
		delete(b.alike, k)
	}
	byID := func(x, y int) int { return slices.Compare(ss[x].Lease.Task[:], ss[y].Lease.Task[:]) }
	slices.SortStableFunc(b.update, byID)
	slices.SortStableFunc(b.remove, byID)
	for _, index := range b.alike {
		slices.SortStableFunc(index, byID)
	}
	return b, nil
}

func (q *Queue) checkLease(l Lease) error {
	if l.Task == uuid.Nil {
		return fmt.Errorf("%w: the zero Lease; only Checkout fills Task.Lease", ErrLeaseLost)
	}
	if l.Queue != q.name {
		return fmt.Errorf("%w: %q, not %q", ErrWrongQueue, l.Queue, q.name)
	}
	return nil
}

func (r Retry) check() error {
	if r.in != nil {
		return checkDelay(*r.in)
	}
	if !r.at.IsZero() {
		return checkTime(r.at)
	}
	return nil
}

// statements is how many statements the batch may take at least.
func (b *settling) statements() int {
	st := b.q.c.s.Statements
	n := (len(b.update)+st.Settle.Max-1)/st.Settle.Max + (len(b.remove)+st.Remove.Max-1)/st.Remove.Max
	for k, index := range b.alike {
		n += (len(index) + k.batch(st).Max - 1) / k.batch(st).Max
		if k.batch(st).First != "" && len(index) > 1 {
			n++
		}
	}
	return n
}

// batch is the statement for those of a kin.
func (k kin) batch(st dialect.Statements) dialect.Batch {
	if k.remove {
		return st.RemoveAlike
	}
	return st.Complete
}

// run settles on conn. again says that an earlier try may have happened, so that a row which is where it should be under our
// fence is our own doing; for those that say Again, an earlier call may.
func (b *settling) run(ctx context.Context, conn dialect.Conn, again bool) error {
	s, p := b.q.c.s, b.parts
	b.out, b.locked = make([]Settled, len(b.ss)), nil
	if b.passes {
		var err error
		if p, err = b.unlocked(ctx, conn); err != nil {
			return err
		}
	}
	done := make(map[held]State, len(b.ss))
	updated, err := s.QueryBatch(ctx, conn, s.Statements.Settle, b.updateArgs(p.update), len(p.update))
	if err != nil {
		return err
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.alike), compareKin) {
		index := p.alike[k]
		args := b.leaseArgs(index)
		args["fence"] = k.fence
		rows, err := s.QueryBatch(ctx, conn, k.batch(s.Statements), args, len(index))
		if err != nil {
			return err
		}
		to := StateCompleted
		if k.remove {
			to = state.None
		}
		for _, r := range rows {
			done[held{r.ID, k.fence}] = to
		}
	}
	removed, err := s.QueryBatch(ctx, conn, s.Statements.Remove, b.leaseArgs(p.remove), len(p.remove))
	if err != nil {
		return err
	}
	for _, r := range updated {
		done[held{r.ID, r.Fence}] = r.State
	}
	for _, r := range removed {
		done[held{r.ID, r.Fence}] = state.None
	}
	var missing []int // of which an earlier try may have settled some
	for i, st := range b.ss {
		key := held{st.Lease.Task, st.Lease.Fence}
		to, ok := done[key]
		switch {
		case b.twice[i]:
			b.out[i].Err = ErrLeaseLost
		case b.locked[i]:
			b.out[i].Err = ErrLocked
		case !ok:
			b.out[i].Err = ErrLeaseLost
			if again || st.again {
				missing = append(missing, i)
			}
		default:
			b.out[i].State = to
		}
	}
	if len(missing) > 0 {
		return b.resolve(ctx, conn, missing)
	}
	return nil
}

// resolve finds out whether settlements that found no row had happened in an earlier try.
func (b *settling) resolve(ctx context.Context, conn dialect.Conn, missing []int) error {
	ids := make([]uuid.UUID, len(missing))
	for k, i := range missing {
		ids[k] = b.ss[i].Lease.Task
	}
	rows, err := b.q.c.peek(ctx, conn, ids)
	if err != nil {
		return err
	}
	for _, i := range missing {
		st := b.ss[i]
		row, exists := rows[st.Lease.Task]
		switch {
		case st.remove && !exists && time.Now().Before(st.Lease.Until):
			b.out[i] = Settled{State: state.None} // nobody else could have removed it
		case st.event == state.Complete && !exists && time.Now().Before(st.Lease.Until):
			b.out[i] = Settled{State: state.None} // completed, and removed by its holder: nobody else could
		case st.remove && !exists:
			b.out[i].Err = ErrMayHaveHappened
		case exists && !st.remove && row.Fence == st.Lease.Fence && (row.State == st.target() ||
			st.event == state.Fail && row.State == StatePoison):
			b.out[i] = Settled{State: row.State}
		case exists && st.event == state.Complete && row.Fence == st.Lease.Fence && row.State != StateProcessing:
			b.out[i] = Settled{State: row.State} // its holder has ended the attempt, in another way
		case st.event != state.Complete || !st.remove && !exists:
			b.out[i].Err = ErrMayHaveHappened // it may have been done, and the task has gone on from there
		}
	}
	return nil
}

func (s Settlement) target() State {
	t, _ := state.Find(s.event, state.Holder)
	return t.To
}

func (b *settling) leaseArgs(index []int) dialect.Args {
	id, fence := make(dialect.Col[uuid.UUID], len(index)), make(dialect.Col[int64], len(index))
	for k, i := range index {
		id[k], fence[k] = b.ss[i].Lease.Task, b.ss[i].Lease.Fence
	}
	args := dialect.Args{"id": id, "fence": fence, "lock_wait": nil}
	if !b.patient {
		args["lock_wait"] = lockWait.Milliseconds()
	}
	return args
}

func (b *settling) updateArgs(index []int) dialect.Args {
	n := len(index)
	to, uncount := make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	at, after := make(dialect.Col[*int64], n), make(dialect.Col[*int64], n)
	result, size := make(dialect.Col[[]byte], n), make(dialect.Col[*int64], n)
	for k, i := range index {
		s := b.ss[i]
		t, _ := state.Find(s.event, state.Holder)
		to[k], result[k] = int64(t.To), cutResult(s.result)
		size[k] = dialect.SizeOf(result[k])
		if t.Attempts == state.Uncount {
			uncount[k] = 1
		}
		if s.retry.in != nil {
			us := s.retry.in.Microseconds()
			after[k] = &us
		}
		at[k] = micros(s.retry.at)
	}
	args := b.leaseArgs(index)
	args["state"], args["uncount"], args["at"], args["after"], args["result"], args["result_size"] = to, uncount, at, after, result, size
	return args
}
