//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGettingStartedRunsAsPrinted takes each block of Go from the page, as a reader would, into a module that requires
// this one, and runs it: a program by itself, and any other file by go test.
func TestGettingStartedRunsAsPrinted(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Replace(read("../../go.mod"), "module github.com/dbq-go/dbq", "module shop", 1) +
		"\nrequire github.com/dbq-go/dbq v0.0.0\nreplace github.com/dbq-go/dbq => " + root + "\n"
	files := map[string]string{"go.mod": module, "go.sum": read("../../go.sum")}
	page := read("../../docs/getting-started.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	programs := 0
	for i, block := range blocks {
		name := "queue_test.go"
		if strings.Contains(block[1], "\npackage main\n") {
			name = "main.go"
			programs++
		}
		files[filepath.Join(fmt.Sprint("block", i+1), name)] = block[1]
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(blocks); n != 6 || programs != 2 {
		t.Errorf("the page has %d blocks and %d programs, want 6 and 2", n, programs)
	}
	for _, args := range [][]string{{"test", "./..."}, {"build", "-o", dir + "/bin/", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	for i, block := range blocks {
		if strings.Contains(block[1], "\npackage main\n") {
			runProgram(t, filepath.Join(dir, "bin", fmt.Sprint("block", i+1)), strings.Contains(block[1], "SIGTERM"))
		}
	}
}

// runProgram runs a program in an empty directory. One that runs until a signal gets it when its worker has started.
func runProgram(t *testing.T, program string, untilSignal bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir, cmd.WaitDelay = t.TempDir(), time.Second
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		if untilSignal && strings.Contains(lines.Text(), "worker: started") {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v:\n%s", filepath.Base(program), err, all.String())
	}
}
