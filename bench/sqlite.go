package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dbq-go/dbq"
)

// sqlitePlace is a database file in a directory of its own.
type sqlitePlace struct {
	directory   string
	synchronous string
	name        string // of the file, bench if it is ""
}

func (p *sqlitePlace) file() string { return filepath.Join(p.directory, cmp.Or(p.name, "bench")+".db") }

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

// db opens the file with dbq's settings for other contenders.
func (p *sqlitePlace) db(conns int) (*sql.DB, error) {
	settings := "?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=wal_autocheckpoint(4000)" +
		"&_pragma=busy_timeout(60000)&_pragma=synchronous(" + p.synchronous + ")"
	db, err := sql.Open("sqlite", "file:"+p.file()+settings)
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
	return "SQLite " + version + " through modernc.org/sqlite, WAL, a file in the temporary directory", err
}

func sqliteEntries(directory string) []*entry {
	var all []*entry
	for _, synchronous := range []string{"full", "normal"} {
		p := &sqlitePlace{directory: directory, synchronous: synchronous}
		group := "SQLite, synchronous=" + synchronous
		all = append(all, ourEntries(group, p)...)
		all = append(all,
			&entry{
				contender: &backliteTasks{place: p}, group: group, name: "backlite", role: peer,
				singles: true, share: 10,
			},
			&entry{
				contender: &backliteTasks{place: p, deletes: true}, group: group, name: "backlite" + deleting, role: peer,
				deletes: true, share: 10,
			},
			&entry{
				contender: &goqiteLoop{place: p}, group: group, name: "goqite's technique" + deleting, role: peer,
				deletes: true, singles: true, meanwhile: true, share: 5,
			})
		all = append(all, floorEntries(group, p)...)
	}
	return all
}
