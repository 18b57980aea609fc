package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/querycount"
)

const (
	consoleCold   figure = "page of the console, for the first time"
	consoleWarm   figure = "page of the console, again"
	consoleSample figure = "sample of the statistics"
	consoleStart  figure = "start of the console: a count of all queues"

	smallSample = 100_000 // tasks of the table to which the sample's cost is compared
)

// consoleGround is a place with the tables that the console shows, and one with fewer tasks.
type consoleGround struct {
	group        string
	large, small consolePlace
}

func (s *servers) consoleGrounds(o options) []consoleGround {
	name := cmp.Or(o.filled, s.schema+"c")
	directory, name := filepath.Dir(name), filepath.Base(name)
	if o.filled == "" {
		directory = s.directory
	}
	var all []consoleGround
	if s.pg != nil {
		large, small := *s.pg, *s.pg
		large.schema, small.schema = name, name+"s"
		all = append(all, consoleGround{postgresDB, &large, &small})
	}
	for _, m := range s.mysqls {
		large, small := *m, *m
		large.schema, small.schema = name, name+"s"
		all = append(all, consoleGround{m.group, &large, &small})
	}
	file := func(name string) *sqlitePlace {
		return &sqlitePlace{directory: directory, synchronous: "full", name: name}
	}
	return append(all, consoleGround{"SQLite, synchronous=full", file(name), file(name + "s")})
}

// consoles measures each page of the console beside many tasks, and the sample of the statistics beside many and few.
func consoles(ctx context.Context, o options, s *servers) ([]result, error) {
	taken, counts := samples{}, map[string]float64{}
	var entries []*entry
	for _, g := range s.consoleGrounds(o) {
		if !o.only.MatchString(g.group + ": dbq") {
			continue
		}
		all, err := taken.consoleOf(ctx, o, g, counts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.group, err)
		}
		entries = append(entries, all...)
	}
	out := results(entries, taken)
	for i, r := range out {
		out[i].Statements = counts[r.Group+string(r.Figure)+r.Contender]
		if r.Figure == consoleSample && i > 0 && out[i-1].Figure == consoleSample && out[i-1].Group == r.Group {
			out[i].PerBase = r.Median / out[i-1].Median
		}
	}
	return out, nil
}

func (s samples) consoleOf(ctx context.Context, o options, g consoleGround, counts map[string]float64) (
	entries []*entry, err error) {
	for _, f := range []consoleFill{{place: g.small, n: min(smallSample, o.console)}, {place: g.large, n: o.console}} {
		c, ids, err := f.filled(ctx, g.group, o.filled != "")
		if o.filled == "" {
			defer func() { err = errors.Join(err, phase(context.WithoutCancel(ctx), f.place.Clear)) }()
		}
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		e := &entry{group: g.group, name: fmt.Sprintf("%d tasks", f.n), role: ours}
		for round := range o.rounds {
			if err := s.sample(ctx, e, c, f.n, round); err != nil {
				return nil, err
			}
		}
		entries = append(entries, e)
		if f.place != g.large {
			continue
		}
		pages, err := s.pages(ctx, o, g, c, ids, f.n, counts)
		if err != nil {
			return nil, err
		}
		entries = append(entries, pages...)
	}
	return entries, nil
}

// sample does what the elected client does once a minute, of a minute in which tasks were enqueued.
func (s samples) sample(ctx context.Context, e *entry, c *dbq.Client, n, round int) error {
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	since := now.Add(-consoleSpan / 2).Truncate(time.Minute).Add(time.Duration(round) * time.Minute)
	begin := time.Now()
	err = access.Of(c).Store.Sample(ctx, since.UnixMicro(), func(string) bool { return false })
	s.add(e, consoleSample, n, ms(time.Since(begin)))
	return err
}

// site is a console whose users sign in with a token, as dbq serve has one.
type site struct {
	client *dbq.Client
	tokens *auth.Tokens
	secret string
}

func newSite(ctx context.Context, c *dbq.Client) (site, error) {
	tokens := auth.NewTokens(c)
	secret, _, err := tokens.Create(ctx, auth.NewToken{
		Name: fmt.Sprintf("bench%d", time.Now().UnixNano()), Role: auth.Admin, Payloads: true,
	})
	return site{c, tokens, secret}, err
}

// open returns a console that has shown no page yet.
func (s site) open(ctx context.Context) (http.Handler, error) {
	c, err := console.New(console.Config{
		Databases: map[string]*dbq.Client{"bench": s.client, "other": s.client}, Authenticator: s.tokens, MaxRequests: 1,
	})
	if err == nil {
		c.Prepare(ctx)
	}
	return c, err
}

// start measures how long a console counts before its pages show the tasks.
func (s site) start(ctx context.Context) (time.Duration, error) {
	c, err := console.New(console.Config{Databases: map[string]*dbq.Client{"bench": s.client}, Authenticator: s.tokens})
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	c.Prepare(ctx)
	return time.Since(begin), nil
}

// get asks for a page, and fails unless it has the text.
func (s site) get(ctx context.Context, h http.Handler, p consolePage) (time.Duration, error) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, p.path, nil)
	r.AddCookie(&http.Cookie{Name: "dbq_session", Value: "1." + s.secret})
	w := httptest.NewRecorder()
	begin := time.Now()
	h.ServeHTTP(w, r)
	took := time.Since(begin)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, p.has) {
		return took, fmt.Errorf("%s: %s has the status %d after %v, and %q is in it: %v", p.name, p.path, w.Code, took,
			p.has, strings.Contains(body, p.has))
	}
	return took, nil
}

// pages measures the start of a console, and each page when it is shown for the first time, and again.
func (s samples) pages(ctx context.Context, o options, g consoleGround, c *dbq.Client, ids consoleIDs, n int,
	counts map[string]float64) (entries []*entry, err error) {
	on, err := newSite(ctx, c)
	if err != nil {
		return nil, err
	}
	counted, err := countedClient(ctx, g.large)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, counted.Close()) }()
	counting, err := newSite(ctx, counted)
	if err != nil {
		return nil, err
	}
	whole := &entry{group: g.group, name: fmt.Sprintf("%d tasks", n), role: ours}
	entries = append(entries, whole)
	for range o.rounds {
		took, err := on.start(ctx)
		if err != nil {
			return nil, err
		}
		s.add(whole, consoleStart, n, ms(took))
	}
	all := consolePages(ids)
	for _, p := range all {
		entries = append(entries, &entry{group: g.group, name: p.name, role: ours})
	}
	of := entries[1:]
	for range o.rounds {
		h, err := on.open(ctx)
		if err != nil {
			return nil, err
		}
		for i, p := range all {
			for _, f := range []figure{consoleCold, consoleWarm} {
				took, err := on.get(ctx, h, p)
				if err != nil {
					return nil, err
				}
				s.add(of[i], f, n, ms(took))
			}
		}
	}
	h, err := counting.open(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		for _, f := range []figure{consoleCold, consoleWarm} {
			consoleQueries.Store(0)
			if _, err := counting.get(ctx, h, p); err != nil {
				return nil, err
			}
			counts[g.group+string(f)+p.name] = float64(consoleQueries.Load())
		}
	}
	return entries, nil
}

// countedScheme is before the scheme of a DSN whose client adds the queries that it reads with to consoleQueries.
const countedScheme = "counted-"

var (
	consoleQueries  atomic.Int64
	registerCounted = sync.OnceFunc(func() {
		for _, scheme := range dialect.Schemes() {
			inner, err := dialect.Lookup(scheme)
			if err != nil {
				panic(err) // it is one of those that are there
			}
			d := inner
			d.Schemes = []string{countedScheme + scheme}
			d.Open = func(ctx context.Context, dsn string) (dialect.Pool, error) {
				pool, err := inner.Open(ctx, strings.TrimPrefix(dsn, countedScheme))
				if err == nil {
					pool.Read = querycount.Wrap(pool.Read, &consoleQueries)
				}
				return pool, err
			}
			dialect.Register(d)
		}
	})
)

// countedClient returns a client whose queries are counted in consoleQueries.
func countedClient(ctx context.Context, p consolePlace) (*dbq.Client, error) {
	registerCounted()
	switch p := p.(type) {
	case *pgPlace:
		counted := *p
		counted.dsn = countedScheme + p.dsn
		return counted.Open(ctx)
	case *mysqlPlace:
		counted := *p
		counted.dsn = countedScheme + p.dsn
		return counted.Open(ctx)
	case *sqlitePlace:
		counted := *p
		counted.scheme = countedScheme + "sqlite"
		return counted.Open(ctx)
	}
	return nil, fmt.Errorf("the queries of a %T cannot be counted", p)
}

// consoleTables writes the pages of a group, and its samples.
func consoleTables(b *strings.Builder, rows []result) {
	again := map[string]result{}
	for _, r := range rows {
		if r.Figure == consoleWarm {
			again[r.Contender] = r
		}
	}
	fmt.Fprint(b, "\n| page | ms | max | statements | again, ms | max | statements |\n|---|--:|--:|--:|--:|--:|--:|\n")
	line := func(r result) string {
		return fmt.Sprintf("%s | %s | %.0f", amount(r.Median), amount(r.Max), r.Statements)
	}
	for _, r := range rows {
		if r.Figure == consoleCold {
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.Contender, line(r), line(again[r.Contender]))
		}
	}
	fmt.Fprint(b, "\n| | ms | max | x the first |\n|---|--:|--:|--:|\n")
	for _, r := range rows {
		if r.Figure == consoleSample || r.Figure == consoleStart {
			fmt.Fprintf(b, "| %s, %s | %s | %s | %s |\n", r.Figure, r.Contender, amount(r.Median), amount(r.Max),
				ratio(r.PerBase))
		}
	}
}
