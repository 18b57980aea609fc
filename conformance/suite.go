package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// suite is one run of the cases.
type suite struct {
	h       Harness
	seed    uint64
	prefix  string // how the prefixes of this run begin
	dir     string // the run's own folder
	count   atomic.Int64
	started time.Time

	mu     sync.Mutex
	left   []made // what is still to be removed
	shares bool   // the shared tables are in left

	smallRuns sync.Mutex // small cases run one at a time
}

func newSuite(h Harness) *suite {
	id := dbq.NewID()
	s := &suite{h: h, seed: h.Seed, prefix: fmt.Sprintf("c%x_", id[12:])} // random bits only
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano())
	}
	if s.h.Load == 0 {
		s.h.Load = 1
	}
	if s.h.Parallel == 0 {
		s.h.Parallel = defaultParallel
	}
	return s
}

// newPrefix names tables that no other case, process or run uses.
func (s *suite) newPrefix() string {
	return s.prefix + strconv.FormatInt(s.count.Add(1), 36) + "_"
}

// probe opens a client once to learn what the server is, and says which strategies are to be tested.
func (s *suite) probe(ctx context.Context, dir string) (server dialect.Server, family string, strategies []dialect.Strategy, err error) {
	dsn, prefix := s.h.DSN(dir), s.newPrefix()
	tables := s.tables(dsn, prefix)
	c, err := dbq.Open(ctx, dsn, dbq.WithPrefix(prefix), dbq.WithMigrate(), dbq.WithLogger(quietLog))
	if err != nil {
		if e := (*dbq.Error)(nil); errors.As(err, &e) && e.Op == "migrate" { // not every engine takes back the half of a migration
			_ = tables.remove(ctx)
		}
		return server, "", nil, err
	}
	server, family = c.Server(), c.Dialect()
	c.Close()
	if err := tables.remove(ctx); err != nil {
		return server, family, nil, fmt.Errorf("%s cannot be removed again: %w", tables.name, err)
	}
	strategies = server.Strategies
	if len(s.h.Strategies) > 0 {
		strategies = s.h.Strategies
	}
	for _, strategy := range strategies {
		if !slices.Contains(server.Strategies, strategy) {
			return server, family, nil, fmt.Errorf("%w: %s %s cannot do strategy %q, only %s", dbq.ErrOption, server.Product, server.Version,
				strategy, join(server.Strategies, ", "))
		}
	}
	return server, family, strategies, nil
}

// A job is one case under one strategy.
type job struct {
	Case
	strategy dialect.Strategy
}

// strategyGroups are what a strategy decides most about.
var strategyGroups = []string{"Checkout", "Lease", "Contention"}

// jobs are what is to be run, in the order in which it is reported.
func (s *suite) jobs(strategies []dialect.Strategy) (out []job) {
	for i, strategy := range strategies {
		for _, c := range Cases() {
			if c.once && i > 0 || s.h.Short && i > 0 && !slices.Contains(strategyGroups, c.Group) || s.h.Match != nil && !s.h.Match.MatchString(c.FullName()) {
				continue
			}
			out = append(out, job{c, strategy})
		}
	}
	return out
}

// made is something in the database that is to be removed again.
type made struct {
	name string
	drop func(ctx context.Context) error
}

// removeTimeout bounds the removal of one case's tables.
const removeTimeout = 30 * time.Second

// remove removes it, whatever became of ctx.
func (m made) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	return m.drop(ctx)
}

// tables are dbq's tables under a prefix.
func (s *suite) tables(dsn, prefix string) made {
	return made{prefix + "*", func(ctx context.Context) error { return dbq.DropTables(ctx, dsn, dbq.WithPrefix(prefix)) }}
}

// shared are the tables of all small cases of this run. They are removed at its end.
func (s *suite) shared() (dsn, prefix string) {
	dsn, prefix = s.h.DSN(s.dir), s.prefix+"0_" // no number of newPrefix begins so
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shares {
		s.shares = true
		s.left = append(s.left, s.tables(dsn, prefix))
	}
	return dsn, prefix
}

// leave notes what could not be removed.
func (s *suite) leave(m made) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, m)
}

// sweep tries once more to remove what is left, and names what stays.
func (s *suite) sweep(ctx context.Context) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.left {
		if err := m.remove(ctx); err != nil {
			names = append(names, m.name)
		}
	}
	return names
}

func tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "dbq-conformance-")
	return dir, func() { os.RemoveAll(dir) }, err
}
