package cases

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

func roundTripCases() []Case {
	cases := []Case{
		{Name: "EveryByte", run: roundTripEveryByte,
			Law: "Payloads and results may contain any bytes."},
		{Name: "EmptyIsNotNil", run: roundTripEmpty,
			Law: "An empty payload or result is distinct from a missing one."},
		{Name: "LargestPayload", run: roundTripLargest,
			Law: "A payload of the maximum size is stored completely, and one byte more is refused."},
		{Name: "UnicodeKeys",
			Law: "Queues, references and kinds may be any Unicode text and are compared byte by byte.",
			run: func(t *test) {
				roundTripKeys(t, "é", "e\u0301", "e", "É", "ß", "ss", "日本語", "😀", "😁", "ﬁ", "fi", "ı", "i", "Å", "\u212b")
			}},
		{Name: "CaseSensitiveKeys", run: func(t *test) { roundTripKeys(t, "ab", "Ab", "aB", "AB") },
			Law: "Keys that differ only in case are different keys."},
		{Name: "TrailingSpaceKeys",
			Law: "Keys that differ only in spaces are different keys.",
			run: func(t *test) { roundTripKeys(t, "a", "a ", " a", "a  ", " ", "  ", "a\u00a0", "a\u3000") }},
		{Name: "QuotesAndWildcards",
			Law: "Quotes, backslashes, placeholders and wildcards in keys are plain characters.",
			run: func(t *test) {
				roundTripKeys(t, "'", `"`, "`", `\`, `\'`, "%", "_", "a%", "a_", "?", "$1", ":id", "{rows}", "--", "/*",
					"'; DROP TABLE x", "NULL", "0")
			}},
		{Name: "MaxLengths", run: roundTripMaxLengths,
			Law: "Queue, reference, kind and headers may be as long as their limits, in code points of four bytes."},
		{Name: "LongResultIsCut", run: roundTripLongResult,
			Law: "A result that is too long is cut between two characters and marked as cut; one that just fits is not."},
		{Name: "ErrorText", run: roundTripErrorText,
			Law: "An error's text is stored unchanged, including NUL and invalid UTF-8."},
		{Name: "Headers", run: roundTripHeaders,
			Law: "Headers are returned unchanged, with any text in names and values."},
		{Name: "SessionTimeZone", run: roundTripTimeZone,
			Law: "A session's time zone changes no time."},
		{Name: "MicrosecondPrecision", run: roundTripMicroseconds,
			Law: "A run time is exact to the microsecond in every time zone, even around changes of the clock."},
		{Name: "FarFutureRunAt", run: roundTripFarFuture,
			Law: "A run time may be any time from 1970 to 9999."},
	}
	for i := range cases {
		cases[i].Once = true
	}
	return inGroup("RoundTrip", cases...)
}

// roundTrip sends a payload and a result through a task, and wants both unchanged from Checkout, Get, Wait and
// CompleteTx.
func (t *test) roundTrip(c *dbq.Client, payload, result []byte) {
	q := c.Queue("q")
	same := func(what string, got, want []byte) {
		t.failIf(!bytes.Equal(got, want) || (got == nil) != (want == nil),
			"%s: got %d bytes %.40q (nil: %v), want %d bytes %.40q (nil: %v)", what, len(got), got, got == nil,
			len(want), want, want == nil)
	}
	id := t.enqueue(q, dbq.NewTask{Payload: payload})
	same("the payload by Get", t.get(c, id).Payload, payload)
	task := t.take(q, long)
	same("the payload by Checkout", task.Payload, payload)
	if len(result) > dbq.MaxResult {
		result = result[:dbq.MaxResult]
	}
	t.must(q.Complete(t.ctx, task.Lease, result))
	row := t.get(c, id)
	same("the payload after completion", row.Payload, payload)
	same("the result by Get", row.Result, result)
	for _, listed := range t.list(c, admin.Filter{Queue: "q"}) {
		if listed.ID == id {
			same("the result by List", listed.Result, result)
		}
	}
}

func roundTripEveryByte(t *test) {
	c := t.open()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	t.roundTrip(c, every, every)
	random := make([]byte, dbq.MaxResult)
	for i := range random {
		random[i] = byte(t.rand.IntN(256))
	}
	t.roundTrip(c, random, random)
	t.roundTrip(c, []byte(`{"quoted": "\u0000 \\ \" '", "n": 1e400}`), []byte("\x00"))
	t.roundTrip(c, []byte(`\x414243`), []byte(`\x414243`)) // the text form of PostgreSQL's bytea
	t.roundTrip(c, []byte("\ufeff"), []byte("\x1a\r\n"))
}

func roundTripEmpty(t *test) {
	c := t.open()
	t.roundTrip(c, []byte{}, []byte{})
	t.roundTrip(c, nil, nil)
	t.roundTrip(c, []byte{}, nil)
	t.roundTrip(c, nil, []byte{})
}

func roundTripLargest(t *test) {
	plain := t.open()
	const most = 64 << 10
	t.failIf(plain.Info().MaxPayload < most,
		"the server accepts payloads of %d bytes, want at least %d", plain.Info().MaxPayload, most)
	c := t.open(dbq.WithMaxPayload(most))
	t.failIf(c.Info().MaxPayload != most, "MaxPayload is %d, want %d", c.Info().MaxPayload, most)
	t.roundTrip(c, bytes.Repeat([]byte{'x'}, most), nil)
	_, err := c.Queue("q").Enqueue(t.ctx, dbq.NewTask{Payload: make([]byte, most+1)})
	t.wantErr("one byte more", err, dbq.ErrPayloadSize)
	// Of the server's own limit a part is tried: a test should not need its hundreds of MB.
	t.roundTrip(plain, bytes.Repeat([]byte("0123456789abcdef"), min(plain.Info().MaxPayload, 5<<20)/16), nil)
}

// roundTripKeys wants every key to be distinct as a queue, a reference and a kind.
func roundTripKeys(t *test, keys ...string) {
	c, q := t.openQueue()
	byRef, byQueue := map[string]uuid.UUID{}, map[string]uuid.UUID{}
	for _, k := range keys {
		byRef[k] = t.enqueue(q, dbq.NewTask{Reference: k, Kind: k, Key: k, Headers: map[string]string{k: k}})
		byQueue[k] = t.enqueue(c.Queue(k), dbq.NewTask{})
		_, err := q.Enqueue(t.ctx, dbq.NewTask{Reference: k})
		t.wantErr(fmt.Sprintf("enqueue of the reference %q again", k), err, dbq.ErrDuplicate)
	}
	for _, k := range keys {
		if id, err := q.Find(t.ctx, k); err != nil || id != byRef[k] {
			t.Errorf("find %q: got %s and error %v, want %s", k, id, err, byRef[k])
		}
		t.wantIDs(fmt.Sprintf("list of kind %q", k), t.list(c, admin.Filter{Kind: k}), []uuid.UUID{byRef[k]})
		t.wantIDs(fmt.Sprintf("list of reference %q", k), t.list(c, admin.Filter{Reference: k}), []uuid.UUID{byRef[k]})
		row := t.get(c, byRef[k])
		t.failIf(row.Reference != k || row.Kind != k || row.Key != k || !maps.Equal(row.Headers, map[string]string{k: k}),
			"the task of %q came back as %s", k, show(row))
		task := t.take(c.Queue(k), long)
		t.failIf(task.ID != byQueue[k] || task.Queue != k,
			"checkout of queue %q: got task %s of queue %q, want %s", k, task.ID, task.Queue, byQueue[k])
		t.must(c.Queue(k).Complete(t.ctx, task.Lease, []byte(k)))
	}
	for _, k := range keys {
		t.wantOneInView(c, k)
	}
	stats := must(admin.New(c).Stats(t.ctx))
	t.failIf(len(stats) != len(keys)+1, "stats know %d queues, want %d", len(stats), len(keys)+1)
}

// wantOneInView checks that the view of the tasks for people finds one row by each name that is k.
func (t *test) wantOneInView(c *dbq.Client, k string) {
	if strings.ContainsAny(k, `'\`) { // engines write these differently in a literal
		return
	}
	for _, column := range []string{"queue", "reference", "kind", "task_key"} {
		n := t.rows(c.DB(), fmt.Sprintf("%stasks WHERE %s = '%s'", t.Prefix, column, k))
		t.failIf(n != 1, "%q is in %d rows of the column %s, want 1", k, n, column)
	}
}

func roundTripMaxLengths(t *test) {
	c := t.open(dbq.WithName(strings.Repeat("😀", 150))) // the longest that WithName takes
	wide := func(n int) string { return strings.Repeat("😀", n-1) + "𝄞" }
	q := c.Queue(wide(dbq.MaxQueueName))
	header := map[string]string{wide(100): strings.Repeat("x", dbq.MaxHeaders-len(wide(100))-len(`{"":""}`))}
	nt := dbq.NewTask{Reference: wide(dbq.MaxReference), Kind: wide(dbq.MaxKind), Headers: header,
		Priority:    dbq.MaxPriority,
		MaxAttempts: dbq.MaxMaxAttempts, Payload: []byte("x")}
	id := t.enqueue(q, nt)
	task := t.take(q, dbq.MaxLease)
	for call, got := range map[string]dbq.Task{"checkout": task, "get": t.get(c, id)} {
		if got.Queue != q.Name() || got.Reference != nt.Reference || got.Kind != nt.Kind ||
			!maps.Equal(got.Headers, header) ||
			got.Priority != nt.Priority || got.MaxAttempts != nt.MaxAttempts {
			t.Errorf("%s: got %s", call, show(got))
		}
		t.failIf(!strings.HasPrefix(got.Holder, c.Info().Name),
			"%s: the holder is %q, want one that begins with the client's name, %q", call, got.Holder, c.Info().Name)
	}
	if found, err := q.Find(t.ctx, nt.Reference); err != nil || found != id {
		t.Errorf("find: got %s and error %v, want %s", found, err, id)
	}
	// One character less is another key: nothing was cut off in silence.
	shorter := nt
	shorter.Reference, shorter.ID = wide(dbq.MaxReference-1), uuid.Nil
	t.enqueue(q, shorter)
	t.must(q.Settle(t.ctx, task.Lease, dbq.Released(dbq.MaxDelay)))
}

func roundTripLongResult(t *test) {
	c, q := t.openQueue()
	for _, offset := range []int{0, 1, 2, 3} {
		for name, settle := range map[string]func(l dbq.Lease, text string) error{
			"result":     func(l dbq.Lease, text string) error { return q.Complete(t.ctx, l, []byte(text)) },
			"error text": func(l dbq.Lease, text string) error { return q.Settle(t.ctx, l, dbq.Parked(errors.New(text))) },
		} {
			whole := strings.Repeat("x", offset) + strings.Repeat("😀", 2000)
			task := t.takeNew(q, dbq.NewTask{}, long)
			t.must(settle(task.Lease, whole))
			got := string(t.get(c, task.ID).Result)
			kept, note, said := strings.Cut(got, " … [cut from ")
			if len(got) > dbq.MaxResult || len(got) < dbq.MaxResult-10 || !utf8.ValidString(got) ||
				!strings.HasPrefix(whole, kept) || len(kept) < 3900 {
				t.Errorf("a %s of %d bytes came back with %d bytes, valid UTF-8: %v", name, len(whole), len(got),
					utf8.ValidString(got))
			}
			if !said || !strings.Contains(note, fmt.Sprint(len(whole))) {
				t.Errorf("a %s that was cut ends with %q, want it to say from how many bytes", name, got[len(got)-40:])
			}
		}
	}
	fits := strings.Repeat("😀", dbq.MaxResult/4)
	task := t.settleNew(q, dbq.NewTask{}, dbq.Completed([]byte(fits)))
	if got := string(t.get(c, task.ID).Result); got != fits {
		t.Errorf("a result of %d bytes came back with %d, want all of it", len(fits), len(got))
	}
}

func roundTripErrorText(t *test) {
	c, q := t.openQueue()
	for _, text := range []string{"a\x00b", "\xff\xfe", "half of \xf0\x9f\x98", "line\r\nline\t", "", "'; --",
		strings.Repeat("\xff", 5000)} {
		for name, settle := range map[string]func(l dbq.Lease) error{
			"fail":   func(l dbq.Lease) error { return q.Settle(t.ctx, l, dbq.Parked(errors.New(text))) },
			"poison": func(l dbq.Lease) error { return q.Settle(t.ctx, l, dbq.Poisoned(errors.New(text))) },
		} {
			task := t.takeNew(q, dbq.NewTask{}, long)
			if err := settle(task.Lease); err != nil {
				t.Errorf("%s with the error %.20q: %v", name, text, err)
				t.operate(c, admin.Revoke, task.ID)
				continue
			}
			got := t.get(c, task.ID).Result
			if want := text[:min(len(text), 3900)]; !strings.HasPrefix(string(got), want) || len(got) > dbq.MaxResult ||
				len(text) < dbq.MaxResult && string(got) != text {
				t.Errorf("%s with the error %.20q came back as %.20q of %d bytes", name, text, got, len(got))
			}
		}
	}
	task := t.settleNew(q, dbq.NewTask{}, dbq.Parked(nil))
	if got := t.get(c, task.ID).Result; got != nil {
		t.Errorf("a failure without an error left the result %q, want none", got)
	}
}

func roundTripHeaders(t *test) {
	c := t.open()
	for _, h := range []map[string]string{
		nil,
		{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b,c=d"},
		{"empty": "", "<html>&amp;": "\u2028 'quoted' \"twice\" \\", "日本": "😀\x00\n", "A": "1", "a": "2"},
	} {
		id := t.enqueue(c.Queue("q"), dbq.NewTask{Headers: h})
		if got := t.get(c, id).Headers; !maps.Equal(got, h) || (got == nil) != (h == nil) {
			t.Errorf("get: got %q, want %q", got, h)
		}
		if got := t.take(c.Queue("q"), long).Headers; !maps.Equal(got, h) {
			t.Errorf("checkout: got %q, want %q", got, h)
		}
	}
}

func roundTripTimeZone(t *test) {
	if t.OddSession == nil {
		t.Skipf("the harness knows no way to give a session a time zone (Harness.OddSession)")
	}
	usual, odd := t.open(), t.openDSN(t.OddSession(t.DSN))
	at := t.now(usual).Add(-time.Minute).Truncate(time.Microsecond)
	for _, pair := range [][2]*dbq.Client{{usual, odd}, {odd, usual}} {
		from, to := pair[0], pair[1]
		before := t.now(to)
		id := t.enqueue(from.Queue("q"), dbq.NewTask{RunAt: at})
		future := t.enqueue(from.Queue("q"), dbq.NewTask{Delay: time.Minute})
		a, b := t.get(from, id), t.get(to, id)
		t.failIf(show(a) != show(b) || !a.Due.Equal(at),
			"the two sessions see the task differently, due at %v:\n%s\n%s", at, show(a), show(b))
		after := t.now(to)
		t.failIf(a.Created.Before(before) || a.Created.After(after),
			"created at %v by one session, want between %v and %v by the other's clock", a.Created, before, after)
		task := t.take(to.Queue("q"), long)
		t.failIf(task.ID != id, "got task %s, want the one that is due, %s", task.ID, id)
		t.wantNone("leased by the other session", from.Queue("q"))
		if left := t.get(from, id).LeaseUntil.Sub(t.now(from)); left > long || left < long-Timeout {
			t.Errorf("one session sees %v left of a lease of %v by the other", left, long)
		}
		t.must(to.Queue("q").Complete(t.ctx, task.Lease, nil))
		t.operate(from, admin.Reject, future)
	}
}

func roundTripMicroseconds(t *test) {
	c := t.open()
	zone := time.FixedZone("odd", 5*3600+45*60)
	for _, at := range []time.Time{
		time.Date(2026, 1, 2, 3, 4, 5, 123_456_000, time.UTC),
		time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, zone), // nanoseconds are cut
		time.Date(2024, 3, 31, 1, 30, 0, 1000, time.UTC),  // skipped by wall clocks in Europe
		time.Date(2024, 10, 27, 1, 30, 0, 0, time.UTC),    // shown twice by them
		time.Date(2024, 2, 29, 23, 59, 59, 500_000_000, zone),
		time.Date(1970, 1, 1, 0, 0, 0, 1000, time.UTC),
	} {
		got := t.get(c, t.enqueue(c.Queue("q"), dbq.NewTask{RunAt: at})).Due
		if want := at.Truncate(time.Microsecond); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("due at %v, want %v in UTC", got, want.UTC())
		}
	}
}

func roundTripFarFuture(t *test) {
	c, q := t.openQueue()
	last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	id := t.enqueue(q, dbq.NewTask{RunAt: last})
	if got := t.get(c, id).Due; !got.Equal(last) {
		t.Errorf("due at %v, want %v", got, last)
	}
	t.wantNone("due in the year 9999", q)
	if stats, err := admin.New(c).Stats(t.ctx); err != nil || len(stats) != 1 || stats[0].Due != 0 {
		t.Errorf("stats: got %+v and error %v, want one task that is not due", stats, err)
	}
	epoch := t.enqueue(q, dbq.NewTask{RunAt: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)})
	task := t.take(q, long)
	t.failIf(task.ID != epoch, "got task %s, want the one due since 1970", task.ID)
	t.must(q.Settle(t.ctx, task.Lease, dbq.RetryAt(last, errBoom)))
	if got := t.get(c, epoch).Due; !got.Equal(last) {
		t.Errorf("to be retried at %v, want %v", got, last)
	}
	longest := t.enqueue(q, dbq.NewTask{Delay: dbq.MaxDelay})
	if row := t.get(c, longest); row.Due.Sub(row.Created) != dbq.MaxDelay {
		t.Errorf("delayed by %v, want %v", row.Due.Sub(row.Created), dbq.MaxDelay)
	}
}
