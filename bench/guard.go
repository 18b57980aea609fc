package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// guarded is the file of -guard: ratios of the rates of two contenders that took turns.
type guarded struct {
	Margin float64        `json:"margin"` // how far below its ratio one may fall, as a part of it
	Tasks  int            `json:"tasks"`
	Rounds int            `json:"rounds"`
	Ratios []guardedRatio `json:"ratios"`
}

type guardedRatio struct {
	Figure figure  `json:"figure"`
	Of     string  `json:"of"` // an entry's key
	To     string  `json:"to"`
	Ratio  float64 `json:"ratio"`
}

const (
	// No round begins after guardTime, except that guardLeast rounds are always made. guardLimit bounds the whole run.
	guardTime  = 50 * time.Second
	guardLeast = 3
	guardLimit = 3 * time.Minute
)

// guard fails when a ratio is lower than its margin allows. It judges the median of the rounds' ratios, so that a short
// disturbance on the machine does not matter.
func guard(ctx context.Context, o options, s *servers) error {
	ctx, cancel := context.WithTimeout(ctx, guardLimit)
	defer cancel()
	text, err := os.ReadFile(o.guard)
	if err != nil {
		return err
	}
	var g guarded
	err = json.Unmarshal(text, &g)
	if err != nil || g.Margin <= 0 || g.Margin >= 1 || g.Tasks < 1 || g.Rounds < guardLeast || len(g.Ratios) == 0 {
		return fmt.Errorf("%s: a margin between 0 and 1, tasks, at least %d rounds and ratios are needed (%v)",
			o.guard, guardLeast, err)
	}
	entries := s.entries()
	byKey := map[string]*entry{}
	groups := map[string]bool{}
	for _, e := range entries {
		byKey[e.key()], groups[e.group] = e, true
		e.meanwhile = false
	}
	used := map[*entry]bool{}
	var judged []*guardedRatio
	for i := range g.Ratios {
		r := &g.Ratios[i]
		of, to := byKey[r.Of], byKey[r.To]
		if of == nil || to == nil {
			if missing := groupsMissing(groups, r.Of, r.To); missing {
				fmt.Printf("not judged  %-28s %s to %s: no such server here\n", r.Figure, r.Of, r.To)
				if o.every {
					return fmt.Errorf("%s of %s cannot be judged: %s", r.Figure, r.Of, strings.Join(s.skipped, "; "))
				}
				continue
			}
			return fmt.Errorf("%s: no contender %q or %q", o.guard, r.Of, r.To)
		}
		used[of], used[to] = true, true
		judged = append(judged, r)
	}
	entries = slices.DeleteFunc(entries, func(e *entry) bool { return !used[e] })
	taken := samples{}
	begin := time.Now()
	for round := range g.Rounds {
		if round >= guardLeast && time.Since(begin) > guardTime {
			fmt.Fprintf(os.Stderr, "guard: %d rounds of %d fit into %v\n", round, g.Rounds, guardTime)
			break
		}
		// One round each time, so that it can end between two.
		what := fmt.Sprintf("guard, round %d of %d", round+1, g.Rounds)
		err := inTurns(ctx, what, rotated(entries, round), 1, func(ctx context.Context, e *entry) error {
			return taken.bulkAndDrain(ctx, e, g.Tasks)
		})
		if err != nil {
			return err
		}
	}
	var errs []error
	for _, r := range judged {
		ratios, err := taken.ratios(byKey[r.Of], byKey[r.To], r.Figure)
		if err != nil {
			return err
		}
		got, least := median(ratios), r.Ratio*(1-g.Margin)
		verdict := "ok"
		if got < least && !o.update {
			verdict = "FAIL"
			errs = append(errs, fmt.Errorf("%s of %s to %s is %.2f, at least %.2f is expected (%.2f less %.0f %%); "+
				"of the rounds: %.2f", r.Figure, r.Of, r.To, got, least, r.Ratio, g.Margin*100, ratios))
		}
		fmt.Printf("%-10s  %-28s %5.2f (%.2f)  %s to %s\n", verdict, r.Figure, got, r.Ratio, r.Of, r.To)
		if o.update {
			r.Ratio = float64(int(got*100)) / 100
		}
	}
	if o.update {
		text, err := json.Marshal(g)
		if err != nil {
			return err
		}
		return os.WriteFile(o.guard, linesOf(text, "figure"), 0o644)
	}
	return errors.Join(errs...)
}

// groupsMissing reports whether a key belongs to a group without a server in this run.
func groupsMissing(groups map[string]bool, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		for g := range groups {
			if len(key) > len(g) && key[:len(g)+2] == g+": " {
				return false
			}
		}
		return true
	})
}

func rotated(entries []*entry, by int) []*entry {
	by %= len(entries)
	return slices.Concat(entries[by:], entries[:by])
}

// ratios returns the ratio of each round, sorted.
func (s samples) ratios(of, to *entry, f figure) ([]float64, error) {
	a, b := s[of][f], s[to][f]
	if len(a) == 0 || len(a) != len(b) {
		return nil, fmt.Errorf("%s: %d rounds of %s and %d of %s", f, len(a), of.key(), len(b), to.key())
	}
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	slices.Sort(out)
	return out, nil
}
