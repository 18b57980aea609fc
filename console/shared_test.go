package console

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// timed runs a test whose clock stands still unless the test sleeps.
func timed(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func TestManyVisitorsCauseOneReading(t *testing.T) { timed(t, manyVisitorsCauseOneReading) }

func manyVisitorsCauseOneReading(t *testing.T) {
	var s shared[int]
	var readings atomic.Int64
	begun, release := make(chan struct{}), make(chan struct{})
	read := func(context.Context) (int, error) {
		close(begun) // panics if there is a second reading
		<-release
		return int(readings.Add(1)), nil
	}
	var visitors sync.WaitGroup
	visit := func() {
		if got, err := s.get(t.Context(), read); got != 1 || err != nil {
			t.Errorf("a visitor gets %d, %v", got, err)
		}
	}
	visitors.Go(visit)
	<-begun
	for range 50 {
		visitors.Go(visit)
	}
	close(release)
	visitors.Wait()
	time.Sleep(sharedFor)
	visit()
	if got := s.last(); got != 1 {
		t.Errorf("the last result is %d", got)
	}
	time.Sleep(time.Nanosecond)
	two := func(context.Context) (int, error) { return 2, nil }
	if got, err := s.get(t.Context(), two); got != 2 || err != nil {
		t.Errorf("a later visitor gets %d, %v", got, err)
	}
}

func TestOldResultIsShownWhileItIsReadAgain(t *testing.T) {
	timed(t, oldResultIsShownWhileItIsReadAgain)
}

// oldResultIsShownWhileItIsReadAgain has visitors that wait for a reading, but no longer than their patience.
func oldResultIsShownWhileItIsReadAgain(t *testing.T) {
	var log strings.Builder
	s := shared[int]{patience: time.Second, log: slog.New(slog.NewTextHandler(&log, nil))}
	results := func(next int, takes time.Duration) func(context.Context) (int, error) {
		return func(context.Context) (int, error) {
			time.Sleep(takes)
			return next, nil
		}
	}
	visit := func(next int, takes time.Duration, want int, waits time.Duration) {
		t.Helper()
		begin := time.Now()
		got, err := s.get(t.Context(), results(next, takes))
		if waited := time.Since(begin); got != want || err != nil || waited != waits {
			t.Errorf("a visitor gets %d, %v after %v, want %d after %v", got, err, waited, want, waits)
		}
	}
	visit(1, 3*time.Second, 1, 3*time.Second) // there is no older result
	time.Sleep(sharedLoad * 4 * time.Second)
	visit(2, 5*time.Second/2, 1, time.Second)
	visit(9, 0, 1, time.Second) // its own is not read: another reading is under way
	visit(9, 0, 2, time.Second/2)
	s.expire()
	visit(3, time.Second/2, 3, time.Second/2) // something was changed
	s.expire()
	visit(4, 3*time.Second/2, 3, time.Second)
	s.expire()
	visit(5, time.Second/4, 5, 3*time.Second/4) // after 4, which is of the time before the change
	time.Sleep(24 * time.Hour)
	visit(6, 3*time.Second, 5, time.Second)
	time.Sleep(24 * time.Hour)
	if log.Len() > 0 {
		t.Errorf("the log has %q before a panic", log.String())
	}
	if _, err := s.get(t.Context(), planted); !errors.Is(err, errReadingPanicked) {
		t.Errorf("the visitor whose reading panics gets %v, want the panic as an error", err)
	}
	synctest.Wait()
	for _, part := range []string{"level=ERROR", `"console: a reading panicked"`, "cause=planted", "console.planted("} {
		if strings.Count(log.String(), part) != 1 {
			t.Errorf("the log lacks %s, or has it twice: %s", part, log.String())
		}
	}
	time.Sleep(sharedFor)
	visit(7, 3*time.Second, 7, 3*time.Second) // after a failure nothing older is shown
}

func TestChangesCauseOneReadingAtATime(t *testing.T) { timed(t, changesCauseOneReadingAtATime) }

// changesCauseOneReadingAtATime changes something more often than it can be read: the visitors' results are a little
// old, and one reading follows another.
func changesCauseOneReadingAtATime(t *testing.T) {
	s := shared[int]{patience: time.Second / 10}
	var readings, running atomic.Int64
	read := func(context.Context) (int, error) {
		if running.Add(1) > 1 {
			t.Error("two readings run at the same time")
		}
		defer running.Add(-1)
		n := readings.Add(1)
		time.Sleep(2 * time.Second)
		return int(n), nil
	}
	for change := range 600 {
		s.expire()
		got, err := s.get(t.Context(), read)
		if err != nil || got < change/3-1 {
			t.Fatalf("the visitor after change %d, a second after the one before, gets reading %d, %v", change, got, err)
		}
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
}

func TestReadingHasTimeOfItsOwn(t *testing.T) { timed(t, readingHasTimeOfItsOwn) }

// readingHasTimeOfItsOwn has a visitor begin a reading just before the end of the request.
func readingHasTimeOfItsOwn(t *testing.T) {
	s := shared[int]{patience: time.Second}
	read := func(ctx context.Context) (int, error) {
		select {
		case <-time.After(2 * time.Second):
			return 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	visit := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := s.get(ctx, read)
		return err
	}
	check.OK(t, visit(time.Minute))
	time.Sleep(time.Hour)
	if err := visit(time.Second / 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the visitor with half a second gets %v", err)
	}
	if err := visit(time.Minute); err != nil {
		t.Errorf("the next visitor gets %v", err)
	}
	time.Sleep(time.Minute)
}

// planted is a reading that panics.
func planted(context.Context) (int, error) { panic("planted") }

func TestSlowReadingIsKeptForLonger(t *testing.T) { timed(t, slowReadingIsKeptForLonger) }

func slowReadingIsKeptForLonger(t *testing.T) {
	var s shared[int]
	readings := 0
	read := func(context.Context) (int, error) {
		readings++
		time.Sleep(time.Second)
		return 0, nil
	}
	for range 10 {
		if _, err := s.get(t.Context(), read); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sharedFor)
	}
	if readings != 2 {
		t.Errorf("%d readings of a second in 50 seconds, want 2", readings)
	}
}

func TestSlowFailureIsNotKeptForLonger(t *testing.T) { timed(t, slowFailureIsNotKeptForLonger) }

func slowFailureIsNotKeptForLonger(t *testing.T) {
	var s shared[int]
	failed := errors.New("the database is gone")
	if _, err := s.get(t.Context(), func(context.Context) (int, error) {
		time.Sleep(30 * time.Second)
		return 0, failed
	}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	time.Sleep(sharedFor + time.Nanosecond)
	if got, err := s.get(t.Context(), func(context.Context) (int, error) { return 1, nil }); got != 1 || err != nil {
		t.Errorf("after the failure: %d, %v", got, err)
	}
}

func TestVisitorThatLeavesDoesNotInterruptOthers(t *testing.T) {
	timed(t, visitorThatLeavesDoesNotInterruptOthers)
}

func visitorThatLeavesDoesNotInterruptOthers(t *testing.T) {
	var s shared[int]
	ctx, leave := context.WithCancel(t.Context())
	begun, release := make(chan struct{}), make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = s.get(ctx, func(ctx context.Context) (int, error) {
			close(begun)
			<-release
			return 1, ctx.Err()
		})
	})
	<-begun
	both.Go(func() {
		if got, err := s.get(t.Context(), nil); got != 1 || err != nil {
			t.Errorf("the one who stays gets %d, %v", got, err)
		}
	})
	leave()
	close(release)
	both.Wait()
}

func TestErrorIsSharedAndKeepsTheLastResult(t *testing.T) {
	timed(t, errorIsSharedAndKeepsTheLastResult)
}

func errorIsSharedAndKeepsTheLastResult(t *testing.T) {
	var s shared[int]
	one := func(context.Context) (int, error) { return 1, nil }
	if _, err := s.get(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	s.expire()
	failure, readings := errors.New("away"), 0
	for range 3 {
		_, err := s.get(t.Context(), func(context.Context) (int, error) { readings++; return 0, failure })
		if !errors.Is(err, failure) {
			t.Errorf("the error is %v", err)
		}
	}
	if readings != 1 || s.last() != 1 {
		t.Errorf("%d readings failed, want 1; the last result is %d, want 1", readings, s.last())
	}
}

func TestPanicOfAReadingReleasesTheOthers(t *testing.T) { timed(t, panicOfAReadingReleasesTheOthers) }

func panicOfAReadingReleasesTheOthers(t *testing.T) {
	var s shared[int]
	func() {
		defer func() { _ = recover() }()
		_, _ = s.get(t.Context(), func(context.Context) (int, error) { panic("planted") })
	}()
	if _, err := s.get(t.Context(), nil); !errors.Is(err, errReadingPanicked) {
		t.Errorf("the next visitor gets %v", err)
	}
}

func TestSharedKeysAreBounded(t *testing.T) { timed(t, sharedKeysAreBounded) }

func sharedKeysAreBounded(t *testing.T) {
	var s sharedBy[int, int]
	readings := 0
	get := func(key int) {
		t.Helper()
		time.Sleep(time.Nanosecond)
		got, err := s.get(t.Context(), key, func(context.Context) (int, error) { readings++; return key, nil })
		if got != key || err != nil {
			t.Fatalf("the result of %d is %d, %v", key, got, err)
		}
	}
	for key := range 3 * sharedKeys {
		get(0) // which stays
		get(key)
	}
	if len(s.by) > sharedKeys || readings != 3*sharedKeys {
		t.Errorf("%d keys are kept after %d readings, want at most %d and %d", len(s.by), readings, sharedKeys, 3*sharedKeys)
	}
}
