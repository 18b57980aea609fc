package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/cases"
	"github.com/dbq-go/dbq/dialect"
)

// suite is one run of the cases.
type suite struct {
	h       Harness
	seed    uint64
	prefix  string // the beginning of this run's prefixes
	dir     string // the run's own directory
	count   atomic.Int64
	started time.Time

	patience time.Duration // see cases.Env

	mu     sync.Mutex
	left   []cases.Object // objects that must still be removed
	shares bool           // the shared tables are in left

	sharedRuns sync.Mutex // cases with shared tables run one at a time
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

// newPrefix returns a prefix of tables that no other case, process or run uses.
func (s *suite) newPrefix() string {
	return s.prefix + strconv.FormatInt(s.count.Add(1), 36) + "_"
}

// probe opens a client once to determine the server and the strategies to test.
func (s *suite) probe(ctx context.Context, dir string) (server dialect.Server, family string,
	strategies []dialect.Strategy, err error) {
	dsn, prefix := s.h.DSN(dir), s.newPrefix()
	tables := cases.Tables(dsn, prefix)
	c, err := dbq.Open(ctx, dsn, dbq.WithPrefix(prefix), dbq.WithMigrate(), dbq.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		// not every engine rolls back half of a migration
		if e := (*dbq.Error)(nil); errors.As(err, &e) && e.Op == "migrate" {
			_ = tables.Remove(ctx)
		}
		return server, "", nil, err
	}
	server, family = c.Info().Server, c.Info().Dialect
	c.Close()
	if err := tables.Remove(ctx); err != nil {
		return server, family, nil, fmt.Errorf("%s cannot be removed: %w", tables.Name, err)
	}
	strategies = server.Strategies
	if len(s.h.Strategies) > 0 {
		strategies = s.h.Strategies
	}
	for _, strategy := range strategies {
		if !slices.Contains(server.Strategies, strategy) {
			return server, family, nil, fmt.Errorf("%w: the strategies of %s %s are only %s", dbq.ErrOption, server.Product,
				server.Version, join(server.Strategies, ", "))
		}
	}
	return server, family, strategies, nil
}

// A job is one case under one strategy.
type job struct {
	cases.Case
	strategy dialect.Strategy
}

// jobs returns the jobs, in the order of the report.
func (s *suite) jobs(strategies []dialect.Strategy) (out []job) {
	for i, strategy := range strategies {
		for _, c := range cases.All() {
			if c.Once && i > 0 || s.h.Match != nil && !s.h.Match.MatchString(c.FullName()) ||
				s.h.Select != nil && !s.h.Select(caseOf(c), strategy, strategies[0]) {
				continue
			}
			out = append(out, job{c, strategy})
		}
	}
	return out
}

// run runs one case.
func (s *suite) run(ctx context.Context, c cases.Case, strategy dialect.Strategy, dir string, log func(string)) Result {
	r := Result{Case: caseOf(c), Strategy: strategy}
	if reason, known := s.h.Known[c.FullName()]; known {
		r.Skipped = "known: " + reason
		return r
	}
	env := cases.Env{Strategy: strategy, Dir: dir, Seed: s.seed, Log: log, Patience: s.patience, Load: s.h.Load,
		Processes: s.h.Processes, OddSession: s.h.OddSession, Transactions: s.h.Transactions,
		Cluster: (*cases.Cluster)(s.h.Cluster)}
	if c.SharedTables {
		// MariaDB briefly locks the first row after a range, so a checkout can skip another case's task in the same
		// table.
		s.sharedRuns.Lock()
		defer s.sharedRuns.Unlock()
		env.DSN, env.Prefix = s.shared()
		env.KeepTables = true
	} else {
		env.DSN, env.Prefix = s.h.DSN(dir), s.newPrefix()
	}
	start := time.Now()
	found := c.Run(ctx, env)
	r.Duration = time.Since(start)
	r.Failures, r.Skipped, r.Conflicts = found.Failures, found.Skipped, found.Conflicts
	s.leave(found.Left...)
	return r
}

// shared returns the tables of the cases that share them. They are removed at the end of the run.
func (s *suite) shared() (dsn, prefix string) {
	dsn, prefix = s.h.DSN(s.dir), s.prefix+"0_" // no number of newPrefix starts with it
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shares {
		s.shares = true
		s.left = append(s.left, cases.Tables(dsn, prefix))
	}
	return dsn, prefix
}

// leave registers tables that a case could not remove.
func (s *suite) leave(objects ...cases.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, objects...)
}

// sweep tries again to remove the remaining tables, and returns the names of the ones that it could not remove.
func (s *suite) sweep(ctx context.Context) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.left {
		if err := o.Remove(ctx); err != nil {
			names = append(names, o.Name)
		}
	}
	return names
}

func tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "dbq-conformance-")
	return dir, func() { os.RemoveAll(dir) }, err
}
