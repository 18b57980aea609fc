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
