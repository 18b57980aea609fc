package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A contender is one way to store and handle tasks. Its methods are not called concurrently, except Enqueue, which may
// run beside itself and beside Drain.
type contender interface {
	// Prepare replaces the tables by empty ones.
	Prepare(ctx context.Context) error
	// Enqueue adds the tasks numbered from, from+1, ... to-1, in transactions of batch tasks.
	Enqueue(ctx context.Context, from, to, batch int) error
	// Drain works until n tasks are stored as completed, and enters each into the ledger. It returns the time from the
	// first poll to the last completion, which excludes starting and stopping.
	Drain(ctx context.Context, n int, done *ledger) (time.Duration, error)
	// Stored counts the tasks that the database holds as completed, and as anything else.
	Stored(ctx context.Context) (completed, others int, err error)
	// Close removes the tables.
	Close(ctx context.Context) error
}

// A runner handles tasks until stop is called.
type runner interface {
	// Work handles tasks until stop is closed, and calls handled for each of them, from many goroutines. It stores all
	// completions before it returns. end is when the last completion was stored.
	Work(ctx context.Context, stop <-chan struct{}, handled func(number int)) (end time.Time, err error)
}

// drainAll implements Drain for a runner.
func drainAll(ctx context.Context, w runner, n int, done *ledger) (time.Duration, error) {
	stop := make(chan struct{})
	start := time.Now()
	end, err := w.Work(ctx, stop, func(number int) {
		if done.enter(number) == n {
			close(stop)
		}
	})
	return end.Sub(start), err
}

// loops implements Work by count concurrent loops. Each calls once repeatedly, and pauses when it found nothing.
func loops(
	ctx context.Context, count int, stop <-chan struct{}, once func(ctx context.Context, loop int) (found bool, err error),
) (end time.Time, err error) {
	group, ctx := errgroup.WithContext(ctx)
	for i := range count {
		group.Go(func() error {
			for !closed(stop) {
				found, err := once(ctx, i)
				if err != nil {
					return err
				}
				if !found {
					time.Sleep(loopPause)
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return time.Now(), err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// role is the part that a contender plays in a comparison.
type role string

const (
	ours role = "dbq"
	peer role = "peer"
	// The floor is set-based statements over dbq's own table: nothing that handles tasks one by one can be faster.
	floor role = "floor"
)

// An entry is a contender in the tables of results.
type entry struct {
	contender
	group     string // contenders of a group are compared: the same engine with the same settings
	name      string
	role      role
	deletes   bool // removes what is completed, else keeps it
	singles   bool // measure enqueueing, in bulk and one by one; it is the same for further contenders of a kind
	meanwhile bool // measure enqueueing while draining, and what a task costs
	share     int  // works 1/share of the tasks, for what is too slow for all; 0 is 1
}

func (e *entry) tasks(n int) int { return max(n/max(e.share, 1), 1) }

// deleting is the end of the names of contenders that delete completed tasks.
const deleting = ", deleting"

// key identifies an entry.
func (e *entry) key() string { return e.group + ": " + e.name }

// payloadSize is the size of every task's payload, as JSON.
const payloadSize = 200

// payload is the payload of every task. Every handler decodes it, as a real one would.
type payload struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

const filler = "The quick brown fox jumps over the lazy dog. "

// newPayload is a payload whose JSON has payloadSize bytes.
func newPayload(number int) payload {
	frame := len(fmt.Sprintf(`{"number":%d,"text":""}`, number))
	return payload{Number: number, Text: strings.Repeat(filler, 5)[:payloadSize-frame]}
}

func (p payload) encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // an int and ASCII
	}
	return b
}

// numberOf decodes a payload and returns its number.
func numberOf(b []byte) (int, error) {
	var p payload
	err := json.Unmarshal(b, &p)
	return p.Number, err
}

// ledger counts how often each task was handled.
type ledger struct {
	handled []atomic.Int32
	total   atomic.Int64
}

func newLedger(n int) *ledger { return &ledger{handled: make([]atomic.Int32, n)} }

// enter counts a task as handled, and returns the total of all tasks.
func (l *ledger) enter(number int) int {
	if number >= 0 && number < len(l.handled) {
		l.handled[number].Add(1)
	}
	return int(l.total.Add(1))
}

// enterAll counts every task as handled, for set-based statements, which have no handler.
func (l *ledger) enterAll() {
	for i := range l.handled {
		l.enter(i)
	}
}

// check fails unless every task was handled exactly once.
func (l *ledger) check() error {
	never, again := 0, 0
	for i := range l.handled {
		switch n := l.handled[i].Load(); {
		case n == 0:
			never++
		case n > 1:
			again++
		}
	}
	if never > 0 || again > 0 || int(l.total.Load()) != len(l.handled) {
		return fmt.Errorf("of %d tasks %d were never handled and %d more than once, in %d handlings",
			len(l.handled), never, again, l.total.Load())
	}
	return nil
}

// ranges calls f for each range of at most step numbers between from and to.
func ranges(from, to, step int, f func(from, to int) error) error {
	for ; from < to; from += step {
		if err := f(from, min(from+step, to)); err != nil {
			return err
		}
	}
	return nil
}
