package dbq

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/google/uuid"
)

func TestCutResult(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"a", "é", "€", "😀"} {
		t.Run(fmt.Sprintf("%d bytes", len(r)), func(t *testing.T) {
			t.Parallel()
			for lead := range utf8.UTFMax { // every offset of a rune to the cut
				for n := MaxResult - 8; n < MaxResult+200; n++ {
					full := []byte(strings.Repeat("x", lead) + strings.Repeat(r, n/len(r)))
					got := bounds.CutResult(bytes.Clone(full))
					if len(full) <= MaxResult {
						if !bytes.Equal(got, full) {
							t.Fatalf("%d bytes fit and were changed", len(full))
						}
						continue
					}
					checkCut(t, full, got)
					if !utf8.Valid(got) {
						t.Fatalf("%d bytes: the cut is not valid UTF-8", len(full))
					}
				}
			}
		})
	}
}

func checkCut(t *testing.T, full, got []byte) {
	t.Helper()
	note := fmt.Sprintf(" … [cut from %d bytes]", len(full))
	kept, ok := bytes.CutSuffix(got, []byte(note))
	if !ok {
		t.Fatalf("%d bytes: the cut does not say so: ...%q", len(full), got[len(got)-40:])
	}
	if !bytes.HasPrefix(full, kept) {
		t.Fatalf("%d bytes: what is kept is not the beginning", len(full))
	}
	if len(got) > MaxResult || len(got) < MaxResult-utf8.UTFMax {
		t.Fatalf("%d bytes: %d are left, want nearly %d", len(full), len(got), MaxResult)
	}
}

// Bytes that are no text are cut too, without looking for a boundary that is not there.
func TestCutResultOfInvalidUTF8(t *testing.T) {
	t.Parallel()
	for _, b := range []byte{0x80, 0xBF, 0xC3, 0xF0, 0xFF, 0x00} {
		for n := MaxResult; n < MaxResult+10; n++ {
			full := bytes.Repeat([]byte{b}, n)
			got := bounds.CutResult(bytes.Clone(full))
			if n > MaxResult {
				checkCut(t, full, got)
			} else if !bytes.Equal(got, full) {
				t.Errorf("%d times %#x fit and were changed", n, b)
			}
		}
	}
}

func TestCutResultDoesNotChangeItsInput(t *testing.T) {
	t.Parallel()
	full := bytes.Repeat([]byte("x"), MaxResult+100)
	before := bytes.Clone(full)
	bounds.CutResult(full)
	if !bytes.Equal(full, before) {
		t.Error("the caller's bytes were changed")
	}
	if bounds.CutResult(nil) != nil || bounds.CutResult([]byte{}) == nil {
		t.Error("nil and empty are not told apart")
	}
}

func TestQueueNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "mail", "Mail", "with blank", " ", "quote's", `back\slash`, "ünïcödé", "😀", "a:b?c", "%s",
		strings.Repeat("x", MaxQueueName),
		strings.Repeat("😀", MaxQueueName),
	} {
		if err := bounds.QueueName(name); err != nil {
			t.Errorf("%q was refused: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "a\x00b", "a\nb", "\t", "\x7f", "\u0085", "\xff", "a\xc3",
		strings.Repeat("x", MaxQueueName+1), strings.Repeat("😀", MaxQueueName+1),
	} {
		err := bounds.QueueName(name)
		if !errors.Is(err, ErrQueueName) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want ErrQueueName", name, err)
		}
	}
}

func TestNewTaskIsCheckedBeforeAnySQL(t *testing.T) {
	t.Parallel()
	const maxPayload = 1000
	long := strings.Repeat("ä", 201)
	for _, c := range []struct {
		name string
		task NewTask
		want error
	}{
		{"zero", NewTask{}, nil},
		{"all fields", NewTask{ID: NewID(), Kind: long[:200], Payload: make([]byte, maxPayload), Reference: long[:400],
			Priority: 9, RunAt: time.Now(), MaxAttempts: MaxMaxAttempts,
			Headers: map[string]string{"a": "b", "empty": ""}}, nil},
		{"longest delay", NewTask{Delay: MaxDelay}, nil},
		{"first time", NewTask{RunAt: time.Unix(0, 1)}, nil},
		{"priority under", NewTask{Priority: -1}, ErrPriority},
		{"priority over", NewTask{Priority: MaxPriority + 1}, ErrPriority},
		{"attempts under", NewTask{MaxAttempts: -1}, ErrMaxAttempts},
		{"attempts over", NewTask{MaxAttempts: MaxMaxAttempts + 1}, ErrMaxAttempts},
		{"payload over", NewTask{Payload: make([]byte, maxPayload+1)}, ErrPayloadSize},
		{"time and delay", NewTask{RunAt: time.Now(), Delay: 1}, ErrDelay},
		{"delay under", NewTask{Delay: -1}, ErrDelay},
		{"delay over", NewTask{Delay: MaxDelay + 1}, ErrDelay},
		{"before 1970", NewTask{RunAt: time.Unix(-1, 0)}, ErrDelay},
		{"after 9999", NewTask{RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, ErrDelay},
		{"another id", NewTask{ID: uuid.New()}, ErrID},
		{"reference over", NewTask{Reference: long}, ErrReference},
		{"reference with NUL", NewTask{Reference: "a\x00"}, ErrReference},
		{"kind over", NewTask{Kind: long}, ErrKind},
		{"kind not UTF-8", NewTask{Kind: "\xff"}, ErrKind},
		{"header with ESC", NewTask{Headers: map[string]string{"a\x1b[31m": "x"}}, ErrHeaders},
		{"header without key", NewTask{Headers: map[string]string{"": "x"}}, ErrHeaders},
		{"header not UTF-8", NewTask{Headers: map[string]string{"x": "\xff"}}, ErrHeaders},
		{"headers over", NewTask{Headers: map[string]string{"x": strings.Repeat("y", MaxHeaders)}}, ErrHeaders},
	} {
		_, err := c.task.check(maxPayload)
		if !errors.Is(err, c.want) || c.want != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestBoundsOfNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"lease least", bounds.Lease(MinLease), nil},
		{"lease most", bounds.Lease(MaxLease), nil},
		{"lease under", bounds.Lease(MinLease - 1), ErrLeaseTime},
		{"lease over", bounds.Lease(MaxLease + 1), ErrLeaseTime},
		{"lease zero", bounds.Lease(0), ErrLeaseTime},
		{"count least", bounds.Count(1, MaxCheckout), nil},
		{"count most", bounds.Count(MaxCheckout, MaxCheckout), nil},
		{"count under", bounds.Count(0, MaxCheckout), ErrCount},
		{"count over", bounds.Count(MaxCheckout+1, MaxCheckout), ErrCount},
		{"park", refused(Parked(nil)), nil},
		{"retry now", refused(RetryIn(0, nil)), nil},
		{"retry under", refused(RetryIn(-1, nil)), ErrDelay},
		{"retry over", refused(RetryIn(MaxDelay+1, nil)), ErrDelay},
		{"retry at", refused(RetryAt(time.Now(), nil)), nil},
		{"retry before 1970", refused(RetryAt(time.Unix(-1, 0), nil)), ErrDelay},
	} {
		if !errors.Is(c.err, c.want) || (c.want == nil) != (c.err == nil) {
			t.Errorf("%s: got %v, want %v", c.name, c.err, c.want)
		}
	}
}

func refused(o Outcome) error { return o.check() }

func TestUniqueRulesAreChecked(t *testing.T) {
	t.Parallel()
	for what, task := range map[string]NewTask{
		"a key of 201 characters":  {Unique: &Unique{Key: strings.Repeat("k", MaxUniqueKey+1)}},
		"a control character":      {Unique: &Unique{Key: "k\x00"}},
		"a negative period":        {Unique: &Unique{Key: "k", Period: -time.Hour}},
		"a short period":           {Unique: &Unique{Key: "k", Period: MinUniquePeriod - 1}},
		"a long period":            {Unique: &Unique{Key: "k", Period: MaxUniquePeriod + 1}},
		"a short window":           {Unique: &Unique{Key: "k", Window: MinUniquePeriod - 1}},
		"a long window":            {Unique: &Unique{Key: "k", Window: MaxUniquePeriod + 1}},
		"a window and a period":    {Unique: &Unique{Key: "k", Window: time.Hour, Period: time.Hour}},
		"a window and a scope":     {Unique: &Unique{Key: "k", Window: time.Hour, While: UniqueUnfinished}},
		"a period and a scope":     {Unique: &Unique{Key: "k", Period: time.Hour, While: UniqueUnfinished}},
		"an unknown scope":         {Unique: &Unique{Key: "k", While: "running"}},
		"an unknown conflict":      {Unique: &Unique{Key: "k", OnConflict: "drop"}},
		"a replacement by payload": {Unique: &Unique{OnConflict: UniqueReplace}},
		"a debounce without delay": {Unique: &Unique{Key: "k", OnConflict: UniqueDebounce}},
		"a debounce with a time":   {RunAt: time.Now(), Unique: &Unique{Key: "k", OnConflict: UniqueDebounce}},
		"a wait of what is kept":   {Delay: 1, Unique: &Unique{Key: "k", MaxWait: time.Hour}},
		"a wait below the delay":   {Delay: 2, Unique: &Unique{Key: "k", OnConflict: UniqueDebounce, MaxWait: 1}},
		"a negative wait":          {Delay: 1, Unique: &Unique{Key: "k", OnConflict: UniqueDebounce, MaxWait: -1}},
	} {
		if _, err := task.check(MaxResult); !errors.Is(err, ErrUnique) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrUnique", what, err)
		}
	}
}

// A batch with an invalid task is refused as a whole, and an empty batch is accepted. The key of a unique rule without
// one is made of the kind and the payload.
func TestBatchesAreAddedWhole(t *testing.T) {
	t.Parallel()
	q := inMemory(t).Queue("q")
	enqueue := func(ts ...NewTask) ([]Enqueued, error) { return q.EnqueueMany(t.Context(), ts) }
	if out, err := enqueue(NewTask{Reference: "r"}, NewTask{Priority: -1}); len(out) != 0 || !errors.Is(err, ErrPriority) {
		t.Errorf("a batch with an invalid task: got %v, %v", out, err)
	}
	if out, err := enqueue(); len(out) != 0 || err != nil {
		t.Errorf("an empty batch: got %v, %v", out, err)
	}
	if id, err := q.Find(t.Context(), "r"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the batch with an invalid task has added %s: %v", id, err)
	}
	k, p := "k", []byte("p")
	out, err := enqueue(NewTask{Kind: k, Payload: p, Unique: &Unique{}}, NewTask{Kind: k, Payload: p, Unique: &Unique{}},
		NewTask{Kind: k, Payload: []byte("P"), Unique: &Unique{}}, NewTask{Kind: "K", Payload: p, Unique: &Unique{}})
	if err != nil || !out[1].Duplicate || out[1].ID != out[0].ID || out[2].Duplicate || out[3].Duplicate {
		t.Errorf("tasks without a key: got %+v, %v, want the second alone to be a duplicate", out, err)
	}
}
