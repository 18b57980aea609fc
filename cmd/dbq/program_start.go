package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq"
)

// payloadFile is a file without a name that holds a payload, to be a program's stdin. It is complete before the program
// starts: through a pipe, a program whose worker is killed would see an early end of file and could not tell it from
// the end of the payload.
func payloadFile(payload []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "dbq-payload-")
	if err != nil {
		return nil, fmt.Errorf("cannot store the payload: %w", err)
	}
	if _, err = f.WriteAt(payload, 0); err == nil && runtime.GOOS != "windows" {
		err = os.Remove(f.Name()) // where an open file cannot be removed, closePayload does it
	}
	if err != nil {
		f.Close()
		_ = os.Remove(f.Name())
		return nil, fmt.Errorf("cannot store the payload: %w", err)
	}
	return f, nil
}

// closePayload gives the file back.
func closePayload(f *os.File) {
	f.Close()
	if runtime.GOOS == "windows" {
		_ = os.Remove(f.Name())
	}
}

// newThread starts a thread that runs functions until the channel is closed. On Linux, a program that is set to die
// with its parent dies with the thread that started it, and Go's other threads can end before the process.
func newThread() chan<- func() {
	run := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		for f := range run {
			f()
		}
	}()
	return run
}

// environment returns the part of dbq's own environment that its programs get.
type environment struct {
	all  bool     // everything
	also []string // names that are passed although they belong to the database
}

// check refuses invalid names.
func (e environment) check() error {
	for _, name := range e.also {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return usagef("--env: give the name of a variable, such as --env PGHOST")
		}
	}
	return nil
}

// inherited returns dbq's environment, which is all, without the variables that give access to its database: programs
// do not need them, and could print them.
func (e environment) inherited(all []string, dsn string) []string {
	if e.all {
		return all
	}
	return slices.DeleteFunc(all, func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return !slices.Contains(e.also, name) && (opensDatabase(name) || holds(value, dsn))
	})
}

// holds reports whether a variable's value has the DSN in it. A file's path has no password and may be as short as a
// piece of PATH: it is looked for as a word of its own.
func holds(value, dsn string) bool {
	switch {
	case dsn == "":
		return false
	case isFile(dsn):
		return slices.Contains(strings.Fields(value), dsn)
	}
	return strings.Contains(value, dsn)
}

// opensDatabase reports whether a variable is a setting of dbq or of a database's client.
func opensDatabase(name string) bool {
	return slices.ContainsFunc([]string{"DBQ_", "PG", "MYSQL_", "MARIADB_", "ORACLE_", "TNS_", "TWO_TASK"},
		func(prefix string) bool { return strings.HasPrefix(strings.ToUpper(name), prefix) })
}

// taskEnv is the part of a program's environment that describes the task.
func taskEnv(t dbq.Task) []string {
	env := []string{
		"DBQ_TASK_ID=" + t.ID.String(), "DBQ_QUEUE=" + t.Queue, "DBQ_KIND=" + t.Kind, "DBQ_REFERENCE=" + t.Reference,
		"DBQ_ATTEMPT=" + strconv.Itoa(t.Attempt), "DBQ_MAX_ATTEMPTS=" + strconv.Itoa(t.MaxAttempts),
		"DBQ_FENCE=" + strconv.FormatInt(t.Fence, 10),
	}
	taken := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(t.Headers)) {
		name := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' {
				return r
			}
			return '_'
		}, strings.ToUpper(k))
		for n, base := 2, name; taken[name]; n++ { // a-b and a_b
			name = base + "_" + strconv.Itoa(n)
		}
		taken[name] = true
		env = append(env, "DBQ_HEADER_"+name+"="+strings.ReplaceAll(t.Headers[k], "\x00", ""))
	}
	return env
}
