package cases

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/worker"
)

// rememberedSteps is the number of steps of the handler in childSteps.
const rememberedSteps = 2

// stepLog is a file of lines that several processes append to, one after the other.
type stepLog string

func (l stepLog) add(line string) error {
	f, err := os.OpenFile(string(l), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func (l stepLog) lines() []string {
	text, _ := os.ReadFile(string(l)) // it does not exist before the first line
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// die kills this process, the first time that one comes to this point.
func (l stepLog) die(point string) error {
	point = "died " + point
	for _, line := range l.lines() {
		if line == point {
			return nil
		}
	}
	if err := l.add(point); err != nil {
		return err
	}
	return killSelf()
}

// childSteps runs a worker whose handler kills its process before, in and after each of its steps.
func childSteps(ctx context.Context, w *transcript.Caller, s childSpec) error {
	log := stepLog(s.Table)
	handle := func(ctx context.Context, _ dbq.Task) error {
		for i := range rememberedSteps {
			name := fmt.Sprint("step ", i)
			if err := log.die("before " + name); err != nil {
				return err
			}
			v, err := worker.Do(ctx, name, func(context.Context) (string, error) {
				if err := log.add("ran " + name); err != nil {
					return "", err
				}
				return "value of " + name, log.die("in " + name)
			})
			if err == nil {
				err = log.add("has " + v)
			}
			if err == nil {
				err = log.die("after " + name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return (&worker.Worker{Queue: w.Queue, Concurrency: 1, Lease: s.Lease, Handler: worker.Func(handle),
		Tuning: worker.Tuning{PollMax: 100 * time.Millisecond, Grace: defaultPatience}}).Run(ctx)
}

func workerSteps(t *test) {
	c := t.open()
	q, log := c.Queue("steps"), stepLog(t.Dir+"/steps")
	id := t.enqueueMany(q, 1, func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 20 })[0]
	const deaths = 3 * rememberedSteps
	for n, ended := 0, false; !ended; n++ {
		if n > deaths {
			t.Fatalf("%d processes have died:\n%s", n, strings.Join(log.lines(), "\n"))
		}
		p := t.start(childSpec{Do: "steps", Name: fmt.Sprintf("process %d", n), Queue: q.Name(), Lease: long,
			Table: string(log)})
		t.eventually("the process ends, or the work", func() bool {
			ended = t.get(c, id).Ended()
			return ended || p.gone()
		})
		if ended {
			p.stop()
		}
		t.expireLeases(q)
	}
	t.wantState(c, id, dbq.StateCompleted)
	ran, known := map[string]int{}, map[string]bool{}
	for _, line := range log.lines() {
		what, step, _ := strings.Cut(line, " ")
		switch what {
		case "ran":
			t.failIf(known[step], "%s ran again after its value was stored:\n%s", step, strings.Join(log.lines(), "\n"))
			ran[step]++
		case "has":
			known[strings.TrimPrefix(step, "value of ")] = true
		}
	}
	t.failIf(len(known) != rememberedSteps, "the steps have the values %v", known)
	for step, n := range ran {
		t.failIf(n != 2, "%s ran %d times, want twice: its process died once before its value was stored", step, n)
	}
}
