package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

func TestGroupCommitOfWaitingCallers(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	release := s.holdConn()
	ids := numbered(50, "%d")
	s.call(t.Context(), a, ids...)
	s.wantOneCommit(a, release, ids...)
}

// A lone caller does not pay for what only a group needs.
func TestGroupCommitLoneCallerBeginsNoTransaction(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	ids := numbered(5, "%d")
	for _, id := range ids {
		s.callAlone(a, id)
	}
	a.allGood(t, ids...)
	s.onConn(func(on *conn) {
		if on.idle["BEGIN IMMEDIATE"] != nil || on.idle["COMMIT"] != nil {
			t.Error("it began a transaction")
		}
	})
}

func TestGroupCommitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		ids     []string
		commits int64
	}{
		"callers": {numbered(2*maxGroup+1, "%d"), 3},
		"bytes":   {numbered(10, fmt.Sprintf("%%d %d", maxGroupBytes/4-100)), 3},
		"large":   {numbered(3, fmt.Sprintf("%%d %d", maxGroupBytes+1)), 3},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := newGroup(t), newAnswers()
			release := s.holdConn()
			s.call(t.Context(), a, c.ids...)
			before := s.commits.Load()
			release()
			s.callers.Wait()
			a.allGood(t, c.ids...)
			s.wantRows(c.ids...)
			if n := s.commits.Load() - before; n != c.commits {
				t.Errorf("%d commits instead of %d", n, c.commits)
			}
		})
	}
}

func TestGroupCommitFailedStatementAffectsNoOther(t *testing.T) {
	// ROLLBACK ends the whole transaction, as a full disk does.
	for _, how := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		for i, place := range []string{"first", "in the middle", "last"} {
			t.Run(how+" "+place, func(t *testing.T) {
				s, a := newGroup(t), newAnswers()
				s.exec(`
CREATE TRIGGER bad BEFORE INSERT ON t
  WHEN new.id LIKE 'bad%'
BEGIN
  SELECT RAISE(` + how + `, 'it is bad');
END`)
				good := numbered(20, "%d")
				release := s.holdConn()
				s.call(t.Context(), a, good[:i*10]...)
				s.call(t.Context(), a, "bad")
				s.call(t.Context(), a, good[i*10:]...)
				release()
				s.callers.Wait()
				a.allGood(t, good...)
				s.wantRows(good...)
				err, _ := a.of("bad")
				if err == nil || !strings.Contains(err.Error(), "it is bad") || (Dialect{}).Classify(err) != dialect.Invalid {
					t.Errorf("the bad one got %v", err)
				}
				s.callAlone(a, "later")
				a.allGood(t, "later")
			})
		}
	}
}

func TestGroupCommitFailureRetriesIndividually(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	release := s.holdConn()
	ids := numbered(10, "%d")
	s.call(t.Context(), a, ids...)
	s.refuse.Store(1)
	release()
	s.callers.Wait()
	a.allGood(t, ids...)
	s.wantRows(ids...)
	if n := s.refuse.Load(); n != 0 {
		t.Errorf("%d commits were not refused", n)
	}
}

// A caller that waits for the connection can be cancelled, even the leader, without an effect on the others.
func TestGroupCommitCancelledCallerAffectsNoOther(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	release := s.holdConn()
	ctx, cancel := context.WithCancel(t.Context())
	s.call(ctx, a, "leader", "next")
	s.call(t.Context(), a, "a")
	s.call(ctx, a, "in the middle")
	s.call(t.Context(), a, "b")
	s.call(ctx, a, "last")
	cancel()
	for _, id := range []string{"leader", "next", "in the middle", "last"} {
		eventually(t, id+" is answered", func() bool { _, there := a.of(id); return there })
		if err, _ := a.of(id); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", id, err)
		}
	}
	s.call(t.Context(), a, "c")
	release()
	s.callers.Wait()
	a.allGood(t, "a", "b", "c")
	s.wantRows("a", "b", "c")
}

// A caller that is cancelled after it was woken to lead wakes the next one.
func TestGroupCommitNextLeaderCancelled(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	s.group.led = true
	ctx, cancel := context.WithCancel(t.Context())
	s.call(ctx, a, "called")
	s.call(t.Context(), a, "next")
	s.group.mu.Lock()
	cancel()
	s.group.led = false
	s.group.wakeNext()
	s.group.mu.Unlock()
	s.callers.Wait()
	if err, _ := a.of("called"); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v", err)
	}
	a.allGood(t, "next")
	s.wantRows("next")
}

// Once a leader has begun, the end of a context changes nothing, neither for the leader nor for a caller whose
// statement it has taken.
func TestGroupCommitCancelledTooLate(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	ids := []string{"leader", "a", "b"}
	contexts, cancels := map[string]context.Context{}, map[string]func(){}
	for _, id := range ids {
		contexts[id], cancels[id] = context.WithCancel(t.Context())
	}
	s.during = func(insert int64) {
		switch insert {
		case 1:
			cancels["leader"]()
		case 2: // of a; b has been taken
			cancels["b"]()
			time.Sleep(10 * time.Millisecond) // b would answer now
		}
	}
	release := s.holdConn()
	for _, id := range ids {
		s.call(contexts[id], a, id)
	}
	s.wantOneCommit(a, release, ids...)
	cancels["a"]()
}

func TestGroupCommitIncludesLaterCaller(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	s.during = func(insert int64) {
		if insert == 2 {
			s.call(t.Context(), a, "late")
		}
	}
	release := s.holdConn()
	s.call(t.Context(), a, "leader", "a")
	s.wantOneCommit(a, release, "leader", "a", "late")
}

// While another process has the file's lock, each caller can be cancelled, even if the others keep waiting.
func TestGroupCommitCancelledWhileAnotherProcessHasTheLock(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	other, err := openFile(t, s.path, "").Write.BeginTx(t.Context(), nil)
	check.OK(t, err)
	release := s.holdConn()
	ctx, cancel := context.WithCancel(t.Context())
	s.call(ctx, a, "leader")
	s.call(t.Context(), a, "a")
	s.call(ctx, a, "follower")
	release()
	time.Sleep(5 * time.Millisecond) // the leader is likely to wait for the lock by now
	cancel()
	for _, id := range []string{"leader", "follower"} {
		eventually(t, id+" is answered", func() bool { _, there := a.of(id); return there })
		if err, _ := a.of(id); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := other.Rollback(); err != nil {
		t.Error(err)
	}
	s.callers.Wait()
	a.allGood(t, "a")
	s.wantRows("a")
}

func TestGroupCommitOnClosedPool(t *testing.T) {
	s, a := newGroup(t), newAnswers()
	release := s.holdConn()
	ids := numbered(10, "%d")
	s.call(t.Context(), a, ids...)
	if err := s.pool.Close(); err != nil {
		t.Error(err)
	}
	release()
	s.callers.Wait()
	for _, id := range ids {
		if err, _ := a.of(id); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Callers are cancelled and fail at random, and each gets the true result.
func TestGroupCommitReportsTrueResults(t *testing.T) {
	s := newGroup(t)
	s.exec(`
CREATE TRIGGER bad BEFORE INSERT ON t
  WHEN new.id LIKE '%bad'
BEGIN
  SELECT RAISE(ROLLBACK, 'it is bad');
END`)
	const callers, each = 8, 60
	var told sync.Map
	for c := range callers {
		s.callers.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", c, i)
				ctx, cancel := context.WithCancel(t.Context())
				switch i % 10 {
				case c:
					go cancel()
				case 9 - c:
					id += "bad"
				}
				_, _, err := s.group.exec(ctx, s.pool.Write.Conn, "INSERT INTO t VALUES (?, 0)", []any{id})
				cancel()
				told.Store(id, err == nil)
				bad, canceled := strings.HasSuffix(id, "bad"), errors.Is(err, context.Canceled)
				if bad && err == nil || !bad && err != nil && !canceled {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	s.callers.Wait()
	called := 0
	told.Range(func(id, done any) bool {
		called++
		var n int
		err := s.pool.Write.QueryRowContext(t.Context(), "SELECT count(*) FROM t WHERE id = ?", id).Scan(&n)
		if err != nil || done != (n == 1) {
			t.Errorf("%s: told that it was done: %t, there: %d (%v)", id, done, n, err)
		}
		return true
	})
	if n := s.joined(); n != 0 || called != callers*each {
		t.Errorf("%d callers were answered, %d are left", called, n)
	}
}

// A caller that is cancelled once its change is committed still gets the result, which takes a query.
func TestQueryAfterChangeOutlivesItsCaller(t *testing.T) {
	s := migrated(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exec := s.Pool.GroupCommit
	s.Pool.GroupCommit = func(
		ctx context.Context, writer dialect.Writer, query string, args []any,
	) (touched int64, ok bool, err error) {
		defer cancel()
		return exec(ctx, writer, query, args)
	}
	ask := func(ctx context.Context, c dialect.Conn) error {
		_, err := s.Query(ctx, c, s.Texts.Get, dialect.Args{"id": uuid.New()})
		return err
	}
	err := s.Autocommit(ctx, func(ctx context.Context, c dialect.Conn) error {
		if _, err := s.ExecBatch(ctx, c, s.Statements.Private["complete one"],
			dialect.Args{"id": dialect.Col[uuid.UUID]{uuid.New()}, "fence": dialect.Col[int64]{1}}, 1); err != nil {
			t.Errorf("the change got %v", err)
		}
		if ctx.Err() == nil {
			t.Error("the caller has not ended")
		}
		return ask(ctx, c)
	})
	if err != nil {
		t.Errorf("the query after the change got %v", err)
	}
	if err := s.Autocommit(ctx, ask); !errors.Is(err, context.Canceled) {
		t.Errorf("a query of a caller that was cancelled before got %v", err)
	}
}
