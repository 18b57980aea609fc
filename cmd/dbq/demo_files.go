package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// demoBytes bounds the bytes that a demo hashes, so that it takes seconds.
const demoBytes = 512 << 20

const sampleFiles = 200

// fileSet is the set of files that the demo hashes: regular files, by their paths within a directory.
type fileSet struct {
	dir   string
	paths []string
	notes []string // what was left out
}

// findFiles collects regular files in the order of their names, without .git and what has one of the names in own.
func findFiles(ctx context.Context, given string, most int, own []string) (fileSet, error) {
	dir, err := filepath.Abs(given)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fileSet{}, usagef("cannot use --dir: %w", unnamed(err))
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fileSet{}, usagef("--dir is not a directory")
	}
	s := fileSet{dir: dir}
	var bytes int64
	leftOut := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == dir:
			return usagef("cannot read --dir: %w", unnamed(err))
		case err != nil:
			leftOut++
			return nil
		case e.IsDir() && (e.Name() == ".git" || slices.Contains(own, e.Name())):
			return fs.SkipDir
		case !e.Type().IsRegular() || slices.Contains(own, e.Name()):
			return nil
		case len(s.paths) == most:
			s.notes = append(s.notes, fmt.Sprintf("only the first %d files are hashed (--files)", most))
			return fs.SkipAll
		}
		info, err := e.Info()
		if err != nil { // it vanished
			return nil
		}
		if bytes+info.Size() > demoBytes {
			leftOut++
			return nil
		}
		bytes += info.Size()
		name, err := filepath.Rel(dir, path)
		s.paths = append(s.paths, name)
		return err
	})
	if leftOut > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d skipped: directories that cannot be read, and files beyond %d MiB in total",
			leftOut, demoBytes>>20))
	}
	return s, err
}

// makeFiles creates files to hash if there are none.
func makeFiles(dir string) (fileSet, error) {
	s := fileSet{dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return s, err
	}
	for i := range sampleFiles {
		name := fmt.Sprintf("sample-%03d.txt", i)
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "sample file %d\n", i), 0o600); err != nil {
			return s, err
		}
		s.paths = append(s.paths, name)
	}
	return s, nil
}

// hashFile is the work of the demo, both alone and in a worker.
func hashFile(dir, path string) (string, error) {
	path = filepath.Join(dir, path)
	// A file may have become a pipe, which would never end.
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("no longer a regular file"))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
