package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dbq-go/dbq"
)

// sqlitePlace is a database file in a folder of its own.
type sqlitePlace struct {
	folder      string
	synchronous string
}

func (p *sqlitePlace) file() string { return filepath.Join(p.folder, "bench.db") }

func (p *sqlitePlace) Clear(context.Context) error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(p.file() + end); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (p *sqlitePlace) Open(ctx context.Context, opts ...dbq.Option) (*dbq.Client, error) {
	return dbq.Open(ctx, fmt.Sprintf("sqlite:%s?synchronous=%s", p.file(), p.synchronous), opts...)
}

// db opens the file with the same settings for what is not dbq.
func (p *sqlitePlace) db(conns int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+p.file()+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)&_pragma=synchronous("+p.synchronous+")")
	if err == nil {
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
	}
	return db, err
}

func sqliteVersion(ctx context.Context) (string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return "", err
	}
	defer db.Close()
	var version string
	err = db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
	return "SQLite " + version + " through modernc.org/sqlite, WAL, a file in " + os.TempDir(), err
}

func sqliteEntries(folder string) []*entry {
	var all []*entry
	for _, synchronous := range []string{"full", "normal"} {
		p := &sqlitePlace{folder: folder, synchronous: synchronous}
		add := func(name string, r role, c contender) *entry {
			e := &entry{contender: c, group: "SQLite, synchronous=" + synchronous, name: name, role: r}
			all = append(all, e)
			return e
		}
		add("dbq, loop", ours, &dbqTasks{place: p, mode: loop}).singles = true
		add("dbq, worker", ours, &dbqTasks{place: p, mode: inWorker})
		b := add("backlite", peer, &backliteTasks{place: p})
		b.singles, b.share = true, 10
		add("floor", floor, &sqliteFloor{place: p})
		add("dbq, loop", ours, &dbqTasks{place: p, mode: loopDelete}).deletes = true
		b = add("backlite", peer, &backliteTasks{place: p, deletes: true})
		b.deletes, b.share = true, 10
		add("floor", floor, &sqliteFloor{place: p, deletes: true}).deletes = true
	}
	return all
}
