//go:build unix

package main

import "testing"

func TestPasswordInDSNFileIsReadAgain(t *testing.T) {
	u := newUser(t)
	u.write("dsn", "postgres://app:one@127.0.0.1/db")
	a := app{surroundings: surroundings{dir: u.dir}, dsnFile: "dsn"}
	for text, want := range map[string]string{
		"postgres://app:two%40@127.0.0.1/db": "two@", "postgres://app@127.0.0.1/db?password=three": "three",
		"host=127.0.0.1 user=app password=four dbname=db": "four",
	} {
		u.write("dsn", text)
		if got, err := a.passwordInFile(t.Context()); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		command := a
		if err := command.readDSNFile(); err != nil || len(command.options()) != 2 { // the logger's and the password's
			t.Errorf("a command does not read the password again: %v", err)
		}
	}
	u.write("dsn", "")
	if _, err := a.passwordInFile(t.Context()); err == nil {
		t.Error("an empty file has a password")
	}
}

// NAME=DSN names a database of dbq serve, in whichever form its DSN is.
func TestServeTakesANameBeforeADSN(t *testing.T) {
	t.Parallel()
	const keywords = "host=db.example port=1 user=app dbname=shop"
	for given, want := range map[string][2]string{
		keywords:                           {"default", keywords},
		"shop=" + keywords:                 {"shop", keywords},
		"user=" + keywords:                 {"user", keywords},
		"host=fe80::1 dbname=app":          {"default", "host=fe80::1 dbname=app"},
		"password=sq:x host=h":             {"default", "password=sq:x host=h"},
		"shop=postgres://db.example/shop":  {"shop", "postgres://db.example/shop"},
		"postgres://db.example/shop":       {"default", "postgres://db.example/shop"},
		"shop=queue.db":                    {"shop", "queue.db"},
		"shop=sqlite:queue.db":             {"shop", "sqlite:queue.db"},
		"shop=postgres:///shop?host=h&x=y": {"shop", "postgres:///shop?host=h&x=y"},
	} {
		s := server{app: &app{surroundings: surroundings{getenv: func(string) string { return "" }}}, dsns: []string{given}}
		var cfg serveConfig
		err := s.addDatabases(&cfg)
		if d := cfg.Databases[want[0]]; err != nil || d == nil || d.DSN != want[1] {
			t.Errorf("%s: got %v, %v, want %v", given, cfg.Databases, err, want)
		}
	}
}
