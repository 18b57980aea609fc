package engines

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/dbq-go/dbq/conformance"
)

// noReaper tells testcontainers-go not to start the container that removes the containers of a killed test program.
const noReaper = "TESTCONTAINERS_RYUK_DISABLED"

// parallel is how many cases run at once when go test is not told: most of their time they wait, for leases and for
// lost connections.
const parallel = "12"

func TestMain(m *testing.M) {
	conformance.Child()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of clients that tests open themselves
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
	}
	if !fetches() && os.Getenv(noReaper) == "" { // its reaper is a container of an image of its own
		os.Setenv(noReaper, "true")
	}
	if err := checkLists(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// lanes is how many targets are tested at once: a suite waits for its server, for leases and for lost connections most
// of its time.
const lanes = 2

// TestConformance runs the suite as target/strategy/group/name.
func TestConformance(t *testing.T) {
	next := make(chan target)
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for target := range next {
				t.Run(target.name, func(t *testing.T) { run(t, target) })
			}
		})
	}
	for _, target := range targets {
		next <- target
	}
	close(next)
	all.Wait()
}

// load is how much work the cases of contention make.
func load(t *testing.T) int {
	text := os.Getenv("DBQ_TEST_LOAD")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("DBQ_TEST_LOAD=%s: write a whole number from 1", text)
	}
	return n
}

func run(t *testing.T, target target) {
	selected, none := selection(t, target)
	if none != "" {
		t.Skip(none)
	}
	s, err := find(t.Context(), target)
	if s.stop != nil {
		t.Cleanup(func() {
			if err := s.stop(); err != nil {
				t.Errorf("stopping %s: %v", s.origin, err)
			}
		})
	}
	if err != nil {
		if !errors.As(err, &skipped{}) || target.required() {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	h := conformance.Harness{DSN: s.dsn, Processes: true, OddSession: target.oddSession, Load: load(t), Select: selected}
	if dir := os.Getenv("DBQ_TEST_REPORTS"); dir != "" {
		h.Report = func(rep conformance.Report) {
			if err := writeReport(dir, target, rep); err != nil {
				t.Errorf("DBQ_TEST_REPORTS: %v", err)
			}
		}
	}
	if target.transactions != nil {
		h.Transactions = target.transactions(s.dsn(""))
	}
	info, err := probe(t.Context(), s.dsn(t.TempDir()))
	if err != nil {
		t.Fatalf("%s cannot be used: %v", s.origin, err)
	}
	t.Attr("engine", fmt.Sprintf("%s %s%s, strategies %v, %s", info.Product, info.Version, behind(info.Pooler),
		info.Strategies, s.origin))
	conformance.Run(t, h)
}

// behind returns a summary's note on a pooler.
func behind(pooler string) string {
	if pooler == "" {
		return ""
	}
	return " behind " + pooler
}
