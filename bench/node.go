package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// nodeRuntime is Node.js with the contenders that run in it.
type nodeRuntime struct {
	program   string
	directory string
}

const installTimeout = time.Minute

// findNode finds Node.js, and installs the packages that node/package-lock.json pins if they are missing. If it cannot,
// it returns the reason.
func findNode(ctx context.Context) (n *nodeRuntime, reason string) {
	_, source, _, _ := runtime.Caller(0)
	n = &nodeRuntime{directory: filepath.Join(filepath.Dir(source), "node")}
	var err error
	if n.program, err = exec.LookPath("node"); err != nil {
		return nil, "there is no node"
	}
	if _, err := os.Stat(filepath.Join(n.directory, "node_modules", "graphile-worker")); err == nil {
		return n, ""
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nil, "there is no npm"
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "ci", "--no-audit", "--no-fund")
	install.Dir = n.directory
	if out, err := install.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s", out)
		return nil, fmt.Sprintf("npm ci in bench/node: %v", err)
	}
	return n, ""
}

// nodeQueue is a contender that runs in Node.js, in a process of its own.
type nodeQueue struct {
	place *pgPlace
	node  *nodeRuntime
	peer  string // as node/peer.mjs calls it
	count string // a query that counts completed tasks, and others
	r     *remote
}

// countCompleted, followed by a table of pg-boss or River, counts its completed jobs and its others.
const countCompleted = `
SELECT count(*) FILTER (WHERE state = 'completed'),
       count(*) FILTER (WHERE state <> 'completed')
  FROM `

func nodeEntries(p *pgPlace, node *nodeRuntime) []*entry {
	graphile := &nodeQueue{
		place: p, node: node, peer: "graphile-worker",
		count: "SELECT 0, count(*) FROM " + p.schema + "._private_jobs",
	}
	boss := &nodeQueue{place: p, node: node, peer: "pg-boss", count: countCompleted + p.schema + ".job"}
	return []*entry{
		{
			contender: graphile, group: postgresDB, name: graphile.peer, role: peer, deletes: true, alone: true,
			singles: true, meanwhile: true, child: true,
		},
		{
			contender: boss, group: postgresDB, name: "pg-boss, loop", role: peer,
			singles: true, meanwhile: true, child: true, share: 5,
		},
	}
}

func (n *nodeQueue) start(ctx context.Context, op string) (*remote, error) {
	cmd := exec.Command(n.node.program, "peer.mjs", n.peer)
	cmd.Dir = n.node.directory
	r, err := startRemote(cmd)
	if err != nil {
		return nil, err
	}
	if _, err := r.call(ctx, request{Op: op, DSN: n.place.dsn, Schema: n.place.schema}); err != nil {
		_ = r.close() // the first error is the one to report
		return nil, err
	}
	return r, nil
}

// spawn starts one more process on existing tables.
func (n *nodeQueue) spawn(ctx context.Context) (*remote, error) { return n.start(ctx, "attach") }

func (n *nodeQueue) Prepare(ctx context.Context) (err error) {
	if err := n.Close(ctx); err != nil {
		return err
	}
	n.r, err = n.start(ctx, "prepare")
	return err
}

func (n *nodeQueue) Enqueue(ctx context.Context, from, to, batch int) error {
	_, err := n.r.call(ctx, request{Op: "enqueue", From: from, To: to, Batch: batch})
	return err
}

func (n *nodeQueue) Drain(ctx context.Context, tasks int, done *ledger) (time.Duration, error) {
	return drainRemotes(ctx, []*remote{n.r}, tasks, done)
}

// CPU returns the time that the process used in the last Drain.
func (n *nodeQueue) CPU() time.Duration { return n.r.cpu }

func (n *nodeQueue) Stored(ctx context.Context) (completed, others int, err error) {
	err = n.place.pool.QueryRow(ctx, n.count).Scan(&completed, &others)
	return completed, others, err
}

func (n *nodeQueue) Close(ctx context.Context) error {
	if n.r != nil {
		r := n.r
		n.r = nil
		if err := r.close(); err != nil {
			return err
		}
	}
	return n.place.Clear(ctx)
}
