package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	want, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil || string(got) != want[path] {
			t.Errorf("%s is not what the code says: run go generate ./...", path)
		}
	}
}

func TestTwoRunsWriteTheSame(t *testing.T) {
	t.Parallel()
	again, err := pages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	first, err := pages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(first, again) {
		t.Error("two runs differ")
	}
	for path, text := range first {
		if text == "" {
			t.Errorf("%s is empty", path)
		}
	}
}

func TestStateWithoutCommentIsAnError(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "state.go")
	if err := os.WriteFile(source, []byte("package state\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statesPage(source); err == nil {
		t.Error("got no error for a state that nothing is said about")
	}
}
