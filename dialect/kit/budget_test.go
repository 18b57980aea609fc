package kit

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

// sized are rows with payloads of these sizes, the even ones with the payload itself.
func sized(sizes ...int64) []dialect.Row {
	rows := make([]dialect.Row, len(sizes))
	for i, n := range sizes {
		if rows[i].PayloadSize = &n; i%2 == 0 {
			rows[i].Payload, rows[i].PayloadSize = make([]byte, n), nil
		}
	}
	return rows
}

func TestBudgetFit(t *testing.T) {
	for _, c := range []struct {
		name  string
		used  int64
		sizes []int64
		fit   int
		cut   bool
	}{
		{"nothing", 0, nil, 0, false},
		{"exactly", 0, []int64{4, 6}, 2, false},
		{"one too many", 0, []int64{4, 6, 1}, 2, true},
		{"empty payloads after the last", 0, []int64{4, 6, 0, 0, 1, 0}, 4, true},
		{"a large one alone", 0, []int64{11, 1}, 1, true},
		{"a large one behind another", 0, []int64{1, 11}, 1, true},
		{"a large one behind empty ones", 0, []int64{0, 0, 11, 1}, 3, true},
		{"nothing that is left", 10, []int64{1}, 0, true},
		{"a large one when something was leased", 1, []int64{11}, 0, true},
	} {
		b := NewBudget(dialect.CheckoutRequest{Limit: 20, Bytes: 10})
		b.Used = c.used
		got := b.Fit(sized(c.sizes...))
		if len(got) != c.fit || b.Cut != c.cut || b.Used != c.used || b.Rows != 20 {
			t.Errorf("%s: %d fit, want %d, and then %+v", c.name, len(got), c.fit, b)
		}
	}
}

func TestBudgetAdd(t *testing.T) {
	b := NewBudget(dialect.CheckoutRequest{Limit: 3, Bytes: 10})
	if got := b.Share(); got != 3 {
		t.Errorf("the share of 3 rows in 10 bytes is %d, want 3", got)
	}
	rows := sized(4, 3)
	b.Add(rows)
	if b.Rows != 1 || b.Used != 7 || b.Cut || b.Full() || b.Share() != 3 {
		t.Errorf("after 2 of 3 rows and 7 of 10 bytes: %+v", b)
	}
	left := sized(5)
	left[0].Cut = true
	b.Add(left)
	if !b.Cut || !b.Full() || b.Share() != 0 {
		t.Errorf("after a row that left others: %+v", b)
	}
	if got := b.Result(); !got.More || len(got.Rows) != 3 {
		t.Errorf("got %+v, want 3 rows and more", got)
	}
	huge := int64(1 << 40)
	b = NewBudget(dialect.CheckoutRequest{Limit: 1})
	if len(b.Fit([]dialect.Row{{PayloadSize: &huge}, {PayloadSize: &huge}})) != 2 {
		t.Error("a request without a bound has one")
	}
}
