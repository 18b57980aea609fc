package main

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
)

// surroundings are what a run of the program has of its process, so that a process can run it more than once.
type surroundings struct {
	in       io.Reader
	out, err io.Writer

	getenv  func(name string) string
	environ func() []string
	dir     string     // where relative file names start; "" is the process's directory
	chatter slog.Level // servers log from that many levels lower than usual
}

// ofProcess returns the surroundings of the process itself.
func ofProcess() surroundings {
	return surroundings{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, environ: os.Environ}
}

// path returns the path of a file that the user has named.
func (s surroundings) path(name string) string {
	if s.dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

// readFile reads a file that the user has named.
func (s surroundings) readFile(name string) ([]byte, error) { return os.ReadFile(s.path(name)) }

// readSecret reads a file that may contain secrets, such as a DSN. Its error does not have the file's name: a user may
// have given the secret itself.
func (s surroundings) readSecret(name string) ([]byte, error) {
	text, err := s.readFile(name)
	return text, unnamed(err)
}

// unnamed returns an error about a file or a program without its name.
func unnamed(err error) error {
	var file *fs.PathError
	var program *exec.Error
	switch {
	case errors.As(err, &file):
		return file.Err
	case errors.As(err, &program):
		return program.Err
	}
	return err
}

// newLogger returns a logger of a server, which logs from a level.
func (s surroundings) newLogger(from slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: from - s.chatter}))
}
