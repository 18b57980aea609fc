package sqlrun

import (
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

// unlimited is a dialect whose checkout depends on {unpaused}.
type unlimited struct{ fake }

func (unlimited) Statements(dialect.Names) dialect.Statements {
	return dialect.Statements{
		Defaulted: dialect.Defaulted{Next: "SELECT 1 WHERE {unpaused}"},
		Private:   map[string]dialect.Batch{"find": {SQL: "SELECT id WHERE {unpaused}"}},
	}
}

// A queue with limits is searched for due tasks only by the core, which has locked the limits.
func TestUnpausedLeavesOutLimitsWithinThem(t *testing.T) {
	t.Parallel()
	s := NewSession(unlimited{}, dialect.Pool{}, dialect.Server{}, dialect.Names{Prefix: "q_"})
	const (
		before = "NOT EXISTS (SELECT 1 FROM q_kv n WHERE n.namespace "
		after  = " AND n.name = :queue)"
	)
	for name, c := range map[string]struct{ text, namespaces string }{
		"checkout":        {s.Private("find").SQL, "IN ('limit', 'pause')"},
		"checkout within": {s.Limited.Private["find"].SQL, "= 'pause'"},
		"next":            {s.Texts.Next, "= 'pause'"},
	} {
		if want := before + c.namespaces + after; !strings.HasSuffix(c.text, "WHERE "+want) {
			t.Errorf("%s: got %q, want %q", name, c.text, want)
		}
	}
}
