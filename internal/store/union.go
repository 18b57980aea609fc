package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// parted is a row that knows of which part of a statement it is.
type parted interface{ of() int }

type (
	countPart struct {
		Part int `db:"part"`
		sqlrun.CountRow
	}
	recordPart struct {
		Part int `db:"part"`
		Record
	}
)

func (r countPart) of() int  { return r.Part }
func (r recordPart) of() int { return r.Part }

// queryUnion runs a query once for each value of a name, at most so many in one statement, and calls add for each row.
func queryUnion[T parted](ctx context.Context, s *Store, conn dialect.Conn, text, name string, values []string,
	most int, args dialect.Args, add func(value string, row T)) error {
	for some := range slices.Chunk(values, most) {
		n, all := roundUp(len(some), most), maps.Clone(args)
		if all == nil {
			all = dialect.Args{}
		}
		for i := range n {
			all[sqlrun.PartName(name, i)] = "" // no queue has this name, so the part costs little
			if i < len(some) {
				all[sqlrun.PartName(name, i)] = some[i]
			}
		}
		rows, err := sqlrun.QueryAs[T](ctx, s.sql, conn, sqlrun.UnionText(text, n, name), all)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if i := r.of(); i < len(some) {
				add(some[i], r)
			}
		}
	}
	return nil
}

// roundUp rounds the number of parts up, so that there are few different texts, which session and engine prepare.
func roundUp(n, most int) int {
	step := 1
	if n > 4 {
		step = 10
	}
	return min((n+step-1)/step*step, most)
}

// listed are the records of some namespaces that one statement reads.
type listed struct {
	store      *Store
	namespaces []string

	read sync.Once
	by   map[string][]Record
	err  error
}

type listedKey struct{}

// ListAtOnce returns a context in which the first ListKV of one of the namespaces reads the records of all of them,
// by one statement. Later calls return what it has read.
func (s *Store) ListAtOnce(ctx context.Context, namespaces ...string) context.Context {
	return context.WithValue(ctx, listedKey{}, &listed{store: s, namespaces: namespaces})
}

// list reads the records of all namespaces, once.
func (l *listed) list(ctx context.Context) {
	l.err = l.store.read(ctx, func(ctx context.Context, conn dialect.Conn) error {
		l.by = map[string][]Record{}
		return queryUnion(ctx, l.store, conn, l.store.sql.Texts.ListKV, "namespace", l.namespaces, len(l.namespaces),
			dialect.Args{"limit": maxRecords}, func(namespace string, r recordPart) {
				l.by[namespace] = append(l.by[namespace], r.Record)
			})
	})
	for _, records := range l.by {
		slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
	}
}
