package dbq_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// A lease that was passed on as JSON is the same lease, but for the monotonic reading of its Until.
func TestLeaseAsJSONCanBeSettled(t *testing.T) {
	q := fileQueue(t)
	if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	tasks, err := q.Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("got %v, %v", tasks, err)
	}
	sent, err := q.Extend(t.Context(), tasks[0].Lease, time.Hour)
	check.OK(t, err)
	sent.Renewed, sent.Progress = true, []byte{0, 255} // as on a server
	text, err := json.Marshal(sent)
	check.OK(t, err)
	var got dbq.Lease
	check.OK(t, json.Unmarshal(text, &got))
	if !got.Until.Equal(sent.Until) {
		t.Errorf("Until is %v, want %v", got.Until, sent.Until)
	}
	if got.Until = sent.Until; !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v from %s, want %+v", got, text, sent)
	}
	got.Until = got.Until.Round(0) // without the monotonic reading
	if got, err = q.Extend(t.Context(), got, time.Minute); err != nil {
		t.Fatal(err)
	}
	check.OK(t, q.Complete(t.Context(), got, nil))
}
