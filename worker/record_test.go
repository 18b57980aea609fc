package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// Attempts for which there is no room are not recorded, and the log says how many these are.
func TestAttemptsThatAreLeftOutAreCounted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := Worker{Queue: newQueue(t), Logger: slog.New(slog.NewTextHandler(&log, nil)), Handler: HandlerFunc(nil)}
	r, err := w.newRun(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids, now := make([]uuid.UUID, recordKeep+3), time.Now()
	for i := range ids { // nobody writes yet
		ids[i] = uuid.New()
		r.recorder.add(dbq.Attempt{Task: ids[i], Queue: "q", Fence: 1, Attempt: 1, Outcome: dbq.OutcomeCompleted, Started: now, Ended: now, Worker: "w"})
	}
	r.recorder.stop()
	r.recorder.run()
	if got := log.String(); strings.Count(got, "attempts are missing") != 1 || !strings.Contains(got, "attempts=3") {
		t.Errorf("the log says %q, want that 3 attempts are missing", got)
	}
	for i, want := range map[int]int{0: 1, recordKeep - 1: 1, recordKeep: 0} {
		if kept, err := w.Queue.Client().Attempts(t.Context(), ids[i]); err != nil || len(kept) != want {
			t.Errorf("attempt %d is there %d times (%v), want %d", i, len(kept), err, want)
		}
	}
}
