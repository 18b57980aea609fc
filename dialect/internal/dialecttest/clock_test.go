package dialecttest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/oracle"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

func TestEveryStatementHasTheMovedClock(t *testing.T) {
	t.Parallel()
	for _, d := range []dialect.Dialect{sqlite.Dialect{}, postgres.Dialect{}, mysql.Dialect{}, oracle.Dialect{}} {
		t.Run(d.Name(), func(t *testing.T) {
			t.Parallel()
			n := dialect.Names{Prefix: "dbq_"}
			now := d.Statements(n).Now
			spaces := strings.NewReplacer("\n", " ", "\t", " ")
			plain := func(text string) string { return strings.Join(strings.Fields(spaces.Replace(text)), " ") }
			s := sqlrun.NewSession(d, dialect.Pool{}, dialect.Server{}, n)
			s.MoveClock("(SELECT micros FROM the_clock)")
			moved := 0
			all := slices.Concat(texts(reflect.ValueOf(s.Texts)), texts(reflect.ValueOf(s.Session.Statements)),
				texts(reflect.ValueOf(s.Limited)))
			for _, text := range all {
				text = plain(text) // each statement indents the clock in its own way
				if n := strings.Count(text, plain(now)); n != strings.Count(text, plain(now)+" + (SELECT micros FROM the_clock)") {
					t.Errorf("a statement reads the clock that is not moved:\n%s", text)
				} else if n > 0 {
					moved++
				}
			}
			if moved < 20 {
				t.Errorf("%d statements read the clock", moved)
			}
			if again := d.Statements(n).Now; again != now {
				t.Errorf("the dialect's own clock is now %s", again)
			}
		})
	}
}

// texts returns all strings in a value.
func texts(v reflect.Value) (out []string) {
	switch v.Kind() {
	case reflect.String:
		return []string{v.String()}
	case reflect.Struct:
		for _, f := range v.Fields() {
			out = append(out, texts(f)...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, texts(v.Index(i))...)
		}
	case reflect.Map:
		for _, value := range v.Seq2() {
			out = append(out, texts(value)...)
		}
	}
	return out
}
