package dbq

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// WorkerInfo is what a worker says about itself, for people and for the CLI. Nothing in dbq depends on it: a task belongs to who holds
// its lease.
type WorkerInfo struct {
	ID          string    `json:"id"`    // unique among all workers: 1 to MaxReference characters
	Queue       string    `json:"queue"` // the queue it works on
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	Started     time.Time `json:"started"`
	State       string    `json:"state"` // such as running, paused, stopping
	Concurrency int       `json:"concurrency"`
	Holding     int       `json:"holding"`               // tasks it holds leases of
	OldestSince time.Time `json:"oldest_since,omitzero"` // when the handler that runs longest began
	Done        int64     `json:"done"`                  // attempts it ended, since it started
	Failed      int64     `json:"failed"`                // of these, those that failed
	Program     string    `json:"program,omitempty"`     // such as the program's version
	// Seen is when it said so last, by the database's clock. Alive is false when it was due to say so again by now, and has not.
	Seen  time.Time `json:"seen"`
	Alive bool      `json:"alive"`
}

// Order is what an operator wants of one worker.
type Order string

// The orders.
const (
	OrderPause  Order = "pause"  // take no more tasks
	OrderResume Order = "resume" // take tasks again
	OrderStop   Order = "stop"   // finish what is in work, and end
)

// deadWorkers is how long the registry remembers a worker that has not said that it is alive.
const deadWorkers = 24 * time.Hour

// forgetEvery is how often a client that announces workers looks for those to forget.
const forgetEvery = time.Hour

// orderTime is how long an order waits for its worker.
const orderTime = 10 * time.Minute

// orderTaken stands in place of an order that its worker has fetched.
const orderTaken = "taken"

// Announce says that a worker is alive for a time to live (ttl), and brings back the order that an operator gave it, once; "" is none.
// A worker calls it well before the ttl is over. Workers that have not been heard of for a day are forgotten.
func (c *Client) Announce(ctx context.Context, w WorkerInfo, ttl time.Duration) (Order, error) {
	err := checkText(w.ID, 1, MaxReference, ErrOption, "worker's id")
	if err == nil && ttl < time.Millisecond {
		err = fmt.Errorf("%w: a worker's time to live of %v", ErrOption, ttl)
	}
	var value []byte
	if err == nil {
		value, err = json.Marshal(w)
	}
	if err == nil {
		err = c.announce(ctx, w.ID, string(value), ttl)
	}
	if err == nil {
		err = c.forgetWorkers(ctx)
	}
	var order Order
	if err == nil {
		order, err = c.takeOrder(ctx, w.ID)
	}
	return order, c.wrap("announce", w.Queue, uuid.Nil, err)
}

// announce writes the note without reading it first, as long as nobody else has written it.
func (c *Client) announce(ctx context.Context, id, value string, ttl time.Duration) error {
	if v, ok := c.announced.Load(id); ok {
		last := dialect.NoteRow{Version: v.(int64)}
		if done, err := c.setNote(ctx, last, true, noteWorker, id, value, ttl); done || err != nil {
			c.announced.Store(id, last.Version+1)
			return err
		}
	}
	if err := c.putNote(ctx, noteWorker, id, value, ttl); err != nil {
		return err
	}
	n, exists, err := c.note(ctx, noteWorker, id)
	if exists {
		c.announced.Store(id, n.Version)
	}
	return err
}

func (c *Client) forgetWorkers(ctx context.Context) error {
	now, last := time.Now().UnixNano(), c.forgot.Load()
	if now-last < int64(forgetEvery) || !c.forgot.CompareAndSwap(last, now) {
		return nil
	}
	if err := c.expireNotes(ctx, noteWorker, deadWorkers); err != nil {
		return err
	}
	return c.expireNotes(ctx, noteOrder, 0)
}

func (c *Client) takeOrder(ctx context.Context, id string) (Order, error) {
	n, exists, err := c.note(ctx, noteOrder, id)
	if err != nil || !exists {
		return "", err
	}
	if ended(n) || n.Value == orderTaken {
		return "", nil
	}
	// Not by removing it, which would remove a later order too that came in between.
	taken, err := c.setNote(ctx, n, true, noteOrder, id, orderTaken, orderTime)
	if err != nil || !taken {
		return "", err
	}
	return Order(n.Value), nil
}

// Withdraw takes a worker that ends out of the registry.
func (c *Client) Withdraw(ctx context.Context, id string) error {
	c.announced.Delete(id)
	err := c.dropNote(ctx, noteWorker, id)
	if err == nil {
		err = c.dropNote(ctx, noteOrder, id)
	}
	return c.wrap("withdraw", "", uuid.Nil, err)
}

// Workers lists the workers that were heard of within a day, by id; those that are not Alive ended without a word.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	rows, err := c.notes(ctx, noteWorker)
	if err != nil {
		return nil, c.wrap("workers", "", uuid.Nil, err)
	}
	var out []WorkerInfo
	for _, n := range rows {
		var w WorkerInfo
		if err := json.Unmarshal([]byte(n.Value), &w); err != nil {
			w = WorkerInfo{ID: n.Name, State: "unreadable"}
		}
		w.Seen, w.Alive = fromMicros(&n.Updated), !ended(n)
		out = append(out, w)
	}
	return out, nil
}

// OrderWorker gives one worker an order, which it obeys when it announces itself next; the OperatorBell of its queue tells it to do so at
// once. No such worker alive is ErrNotFound. An order that is not fetched within 10 minutes is void; a later one replaces it.
func (c *Client) OrderWorker(ctx context.Context, id string, o Order) error {
	err := func() error {
		if o != OrderPause && o != OrderResume && o != OrderStop {
			return fmt.Errorf("%w: the order %q, use %s, %s or %s", ErrOption, o, OrderPause, OrderResume, OrderStop)
		}
		n, exists, err := c.note(ctx, noteWorker, id)
		switch {
		case err != nil:
			return err
		case !exists || ended(n):
			return fmt.Errorf("%w: no worker %q is alive", ErrNotFound, id)
		}
		if err := c.putNote(ctx, noteOrder, id, string(o), orderTime); err != nil {
			return err
		}
		var w WorkerInfo
		if json.Unmarshal([]byte(n.Value), &w) == nil { // else it finds out when it asks
			c.rungAll(operators + w.Queue)
		}
		return nil
	}()
	return c.wrap("order", "", uuid.Nil, err)
}

// Lead tells whether who is the one that does a duty, which only one shall do at a time: it becomes so when nobody is, or the time of
// who was is over, and stays so by asking again before ttl is over. It is a lease by the database's clock: who was held up for longer than
// ttl may go on for a moment beside its successor, so a duty must bear that.
func (c *Client) Lead(ctx context.Context, duty, who string, ttl time.Duration) (bool, error) {
	err := checkText(duty, 1, MaxReference, ErrOption, "duty's name")
	if err == nil {
		err = checkText(who, 1, MaxReference, ErrOption, "leader's name")
	}
	if err == nil && ttl < time.Millisecond {
		err = fmt.Errorf("%w: a lead of %v", ErrOption, ttl)
	}
	leads := false
	if err == nil {
		n, exists, readErr := c.note(ctx, noteLead, duty)
		if err = readErr; err == nil && (!exists || ended(n) || n.Value == who) {
			leads, err = c.setNote(ctx, n, exists, noteLead, duty, who, ttl)
		}
	}
	return leads, c.wrap("lead", "", uuid.Nil, err)
}
