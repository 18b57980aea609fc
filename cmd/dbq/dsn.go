package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dsnredact"
)

const (
	defaultFile = "dbq.db"
	defaultDSN  = "sqlite:" + defaultFile
)

// target is the database of a command.
type target struct {
	dsn       string
	isDefault bool   // no DSN was given
	file      string // the file of a SQLite database on disk
	note      string // the dialect's note for its users
}

// A scheme has two letters at least, so that C:\dbq.db is a file.
var schemeStart = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+-]+:`)

// givenDSN is the DSN as the user gave it, or "". It may contain a password.
func (a *app) givenDSN() string {
	if a.dsn != "" {
		return a.dsn
	}
	return a.getenv("DBQ_DSN")
}

// readDSNFile reads the DSN from the file of --dsn-file, without surrounding white space.
func (a *app) readDSNFile() error {
	switch {
	case a.dsnFile == "":
		return nil
	case a.dsn != "":
		return usagef("--dsn and --dsn-file exclude each other: give only one of them")
	}
	dsn, err := a.readDSN("dsn-file", a.dsnFile)
	a.dsn = dsn
	return err
}

// readDSN reads a DSN from a file that a flag names, without surrounding white space.
func (s surroundings) readDSN(flag, file string) (string, error) {
	text, err := s.readSecret(file)
	if err != nil {
		return "", usagef("cannot read --%s: %w", flag, err)
	}
	dsn := strings.TrimSpace(string(text))
	if dsn == "" || strings.ContainsAny(dsn, "\r\n\x00") {
		return "", usagef("--%s: the file must contain one DSN on one line", flag)
	}
	return dsn, nil
}

// password returns a function that returns the current password in the file of --dsn-file, or nil if the DSN comes
// from elsewhere or has no password.
func (a *app) password() dialect.Password {
	driver, err := dialect.Lookup(a.dsn)
	if password, _ := passwordOf(a.dsn); a.dsnFile == "" || err != nil || driver.File || password == "" {
		return nil
	}
	return a.passwordInFile
}

// passwordInFile reads the password of the DSN in the file of --dsn-file again, since it may have been rotated.
func (a *app) passwordInFile(context.Context) (string, error) {
	now := app{surroundings: a.surroundings, dsnFile: a.dsnFile}
	if err := now.readDSNFile(); err != nil {
		return "", err
	}
	return passwordOf(now.dsn)
}

// passwordOf returns the password of a DSN, which may be a parameter of it.
func passwordOf(dsn string) (string, error) {
	d, err := dialect.ParseDSN(dsn)
	return cmp.Or(d.Params.Get("password"), d.Password), err
}

// isFile reports whether the given text is the path of a SQLite file. Text that looks like connection settings is not
// a path and must not be printed, because it may contain a password.
func isFile(given string) bool {
	path, _, _ := strings.Cut(given, "?")
	return !schemeStart.MatchString(given) && !strings.Contains(given, "@") && !strings.Contains(path, "=")
}

// caution prints the dialect's note. Call it only after the database was opened, because a failure prints only one
// line.
func (a *app) caution(note string) {
	if note != "" {
		a.note("dbq: note: %s", note)
	}
}

// target finds the database: --dsn, else DBQ_DSN, else dbq.db in the current directory.
func (a *app) target() (target, error) {
	text := a.givenDSN()
	switch {
	case text == "":
		t, err := newTarget("sqlite:" + a.path(defaultFile))
		t.isDefault = true
		return t, err
	case isFile(text):
		return newTarget("sqlite:" + a.path(text))
	}
	return newTarget(text)
}

func newTarget(dsn string) (target, error) {
	driver, err := dialect.Lookup(dsn)
	if err != nil {
		return target{}, usagef("%w", hint("the DSN is no file and begins with no scheme that this dbq was built for, such "+
			"as postgres://user@host/database; it has: "+strings.Join(dialect.Schemes(), ", ")))
	}
	t := target{dsn: dsn, file: sqliteFile(dsn), note: driver.Note}
	if directory := filepath.Dir(t.file); t.file != "" {
		switch info, err := os.Stat(directory); {
		case err == nil && info.IsDir():
		case strings.Contains(t.file, "@"): // it may be a server's DSN that contains a password
			return t, usagef("cannot use the SQLite file of the DSN: its directory does not exist")
		default:
			return t, usagef("cannot use the SQLite file %q: %q is not a directory; for a server write "+
				"postgres://user@host/database", t.file, directory)
		}
	}
	return t, nil
}

// sqliteFile returns the file of a SQLite DSN, or "" for other DSNs and for a database in memory.
func sqliteFile(dsn string) string {
	if t := dsnredact.TargetOf(dsn); t.Scheme == "sqlite" && t.Database != ":memory:" {
		return t.Database
	}
	return ""
}

// sqliteSuffixes are the suffixes of the files that SQLite keeps beside a database.
var sqliteSuffixes = []string{"", "-wal", "-shm", "-journal"}

// mustExist refuses a SQLite file that does not exist, because opening it would create an empty one.
func (t target) mustExist() error {
	if t.file == "" {
		return nil
	}
	if _, err := os.Stat(t.file); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := fmt.Errorf("there is no database file %q: run `dbq migrate` to create it", t.file)
	if t.isDefault {
		err = fmt.Errorf("there is no database here (%s): create it with `dbq enqueue` or `dbq migrate`, "+
			"or name another one with --dsn or DBQ_DSN", t.file)
	}
	return &exitError{exitNotMigrated, err}
}
