//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// installed is a client's package as a program uses it: ci/clients.sh has built it, and it was installed from its
// archive into an empty directory, without a network.
type installed struct {
	dir     string
	program string // that runs a worker
}

// Each package is installed once for all tests, which takes seconds.
var (
	installPython = sync.OnceValues(func() (installed, error) {
		for _, python := range []string{"python3", "/usr/bin/python3"} { // the first may be one of the developer's own
			if exec.Command(python, "-c", "import setuptools, wheel, venv, pip").Run() != nil {
				continue
			}
			return install("bin/python", "PYTHON="+python, `../../ci/clients.sh "$OUT" python
"$PYTHON" -m venv --without-pip "$OUT"
"$PYTHON" -m pip --disable-pip-version-check --python "$OUT/bin/python" install --no-index --no-deps "$OUT"/*.whl`)
		}
		return installed{}, missing("a python3 with setuptools, wheel, venv and pip")
	})
	installNode = sync.OnceValues(func() (installed, error) {
		if _, err := exec.LookPath("npm"); err != nil {
			return installed{}, missing("npm")
		}
		from, err := install("", "npm_config_update_notifier=false", `../../ci/clients.sh "$OUT" node
cd "$OUT"
echo '{}' >package.json
npm_config_cache=$OUT/cache npm install --offline --no-audit --no-fund ./*.tgz`)
		from.program = "node"
		return from, err
	})
	findGo = sync.OnceValues(func() (installed, error) {
		if _, err := exec.LookPath("go"); err != nil {
			return installed{}, missing("go")
		}
		return installed{}, nil
	})
)

// missing is the error for a program that this machine does not have.
type missing string

func (m missing) Error() string { return string(m) + " is not installed" }

// needs skips a test for which this machine lacks a program. CI has all of them.
func needs(t *testing.T, err error) {
	t.Helper()
	if m := missing(""); errors.As(err, &m) && os.Getenv("CI") != "true" {
		t.Skip(m)
	}
	check.OK(t, err)
}

// packages are the directories with packages.
var packages struct {
	mu   sync.Mutex
	dirs []string
}

// removePackages removes the packages after the last test.
func removePackages() {
	packages.mu.Lock()
	defer packages.mu.Unlock()
	for _, dir := range packages.dirs {
		_ = os.RemoveAll(dir)
	}
}

// install runs a script that installs a package into the new directory $OUT.
func install(program, variable, script string) (installed, error) {
	dir, err := os.MkdirTemp("", "dbq-client-")
	if err != nil {
		return installed{}, err
	}
	packages.mu.Lock()
	packages.dirs = append(packages.dirs, dir)
	packages.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euc", script)
	cmd.Env = append(os.Environ(), "OUT="+dir, variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		return installed{}, fmt.Errorf("the package is not installed: %w\n%s", err, out)
	}
	return installed{dir, filepath.Join(dir, program)}, nil
}

// link makes the package in Node visible to the programs of a user.
func (i installed) link(u *user) {
	u.t.Helper()
	err := os.Symlink(filepath.Join(i.dir, "node_modules"), u.file("node_modules"))
	if err != nil && !errors.Is(err, os.ErrExist) {
		u.t.Fatal(err)
	}
}

// typedPrograms use all that a package exports.
var typedPrograms = map[string]string{"python": `from __future__ import annotations

from typing import Any

from dbq_client import Client, Enqueued, NewTask, Outcome, Problem, Task, Worker

client = Client("mail", url="http://127.0.0.1:1", database="default", token="x")
first: NewTask = {"kind": "a", "payload": {"to": 1}, "unique": {"key": "ann"}}


def added() -> list[Enqueued]:
    try:
        return client.enqueue(first, {"reference": "b", "delay_seconds": 1.5}, patience=1)
    except Problem as e:
        print(e.type.upper(), e.detail.upper(), e.errors[0]["message"], e.status + 1, e.transient is True)
        return []


worker = Worker(client, concurrency=2, lease_seconds=1.5, wait_seconds=1, drain_seconds=1, name="w")


@worker.task("a")
def handle(task: Task) -> Any:
    task.progress = 1
    return {"id": task.id} if task.lost.wait(1) else Outcome("retry", error="busy", delay_seconds=1)


async def handle_async(task: Task) -> dict[str, int]:
    return {"attempt": task.attempt}


async def main() -> None:
    worker.handle("", handle_async)
    worker.stop()
    await worker.run_async()
`, "node": `import { Client, Outcome, Problem, Worker, type Enqueued, type NewTask, type Task } from 'dbq-client'

const server = { url: 'http://127.0.0.1:1', database: 'default', token: 'x' }
const client = new Client('mail', { ...server, log: line => line.trim() })
const first: NewTask = { kind: 'a', payload: { to: 1 }, unique: { key: 'ann' } }
const added: Enqueued[] = await client.enqueue([first, { reference: 'b', delay_seconds: 1.5 }], { patience: 1 })
const problem = (e: unknown) => e instanceof Problem && [e.type.trim(), e.detail.trim(), e.errors[0].message]
const worker = new Worker(client, { concurrency: 2, leaseSeconds: 1, waitSeconds: 1, drainSeconds: 1, name: 'w' })
worker.handle('a', async (task: Task) => {
  task.progress = 1
  task.signal.throwIfAborted()
  return task.json().busy ? new Outcome('retry', { error: 'busy', delay_seconds: 1 }) : { id: task.id.trim() }
})
worker.handle('', task => { throw problem(task.attempt + 1) })
worker.stop()
await worker.run({ signals: ['SIGTERM'] })
export { added }
`}

// TestTypesOfClients checks the programs by the types of the packages, and the package in Python by its own.
func TestTypesOfClients(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		from, err := l.install()
		check.OK(t, err)
		u := newUser(t)
		var name string
		var args []string
		switch l.name {
		case "python":
			name, args = "mypy", []string{"--strict", "--cache-dir=cache", "--python-executable=" + from.program, "program.py"}
		case "node":
			from.link(u)
			name, args = "tsc", []string{"--noEmit", "--strict", "--target", "es2022", "--module", "node16", "program.mts"}
		default:
			return // the compiler has checked it
		}
		if _, err := exec.LookPath(name); err != nil {
			needs(t, missing(name))
		}
		u.write(args[len(args)-1], typedPrograms[l.name])
		passes := func(args ...string) {
			t.Helper()
			ctx, cancel := u.limited()
			defer cancel()
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Dir, cmd.Env = u.dir, append(u.env, "PYTHONPATH=", "MYPYPATH=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s %q: %v\n%s", name, args, err, out)
			}
		}
		passes(args...)
		if l.name == "python" {
			source, err := filepath.Abs("../../clients/python/dbq_client")
			if err != nil {
				t.Fatal(err)
			}
			passes("--strict", "--cache-dir=cache", source)
		}
	})
}
