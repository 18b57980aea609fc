//go:build unix

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// sh is a work command line that runs a shell script for each task.
func sh(script string, flags ...string) []string {
	return append(append([]string{"work", "-q", "q"}, flags...), "--", "sh", "-c", script)
}

func TestWorkRunsAProgram(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q", "--payload", "to the program", "--kind", "k", "--reference", "r 1",
		"--max-attempts", "4",
		"--header", "trace-id=ab=c", "--header", "a_b=second", "--header", "a-b=first", "--header", "ü=1").id()
	o := u.run(sh(`cat; env | grep ^DBQ_ | sort; printf 'to nobody' >&2`, "--until-empty")...)
	if o.ok() != "" || !strings.Contains(o.err, id+"  completed") {
		t.Errorf("stdout %q, stderr %q", o.out, o.err)
	}
	result := u.run("show", id, "--result").ok()
	for _, want := range []string{"to the program", "DBQ_TASK_ID=" + id, "DBQ_QUEUE=q", "DBQ_KIND=k",
		"DBQ_REFERENCE=r 1", "DBQ_ATTEMPT=1",
		"DBQ_MAX_ATTEMPTS=4", "DBQ_FENCE=1", "DBQ_HEADER_TRACE_ID=ab=c", "DBQ_HEADER__=1", "DBQ_HEADER_A_B=first",
		"DBQ_HEADER_A_B_2=second"} {
		if !strings.Contains(result, want) {
			t.Errorf("the program was not given %q: %s", want, result)
		}
	}
	if got := u.task(id)["state"]; got != "COMPLETED" {
		t.Errorf("state %v", got)
	}
}

func TestWorkFormsOfTheProgram(t *testing.T) {
	u := newUser(t)
	for _, args := range [][]string{
		{"--until-empty", "--exec", "cat"},
		{"--until-empty", "--exec", "echo", "a", "-n", "--json"},
		{"--until-empty", "cat", "-"},
	} {
		id := u.run("enqueue", "-q", "q").id()
		u.run(append([]string{"work", "-q", "q"}, args...)...).ok()
		if got := u.task(id)["state"]; got != "COMPLETED" {
			t.Errorf("%v: state %v", args, got)
		}
	}
}

func TestWorkExitCodes(t *testing.T) {
	u := newUser(t)
	ids := map[string]string{}
	for _, code := range []string{"0", "1", "65", "75", "78"} {
		ids[code] = u.run("enqueue", "-q", "q", "--payload", code).id()
	}
	o := u.run(sh(`code=$(cat); echo line one >&2; echo "why $code" >&2; exit $code`, "--until-empty", "--json")...).
		fails(exitFailed, "4 tasks failed")
	outcomes := map[any]any{}
	for _, a := range o.jsonLines() {
		outcomes[a["task_id"]] = a["outcome"]
	}
	for code, want := range map[string][2]string{
		"1": {"failed", "ERROR"}, "75": {"failed", "ERROR"}, "65": {"poisoned", "POISON"}, "78": {"parked", "ERROR"},
	} {
		task := u.task(ids[code])
		if outcomes[ids[code]] != want[0] || task["state"] != want[1] {
			t.Errorf("exit code %s: %v and %v, want %v", code, outcomes[ids[code]], task["state"], want)
		}
		if parked := task["parked"] == true; parked != (code == "78") {
			t.Errorf("exit code %s: parked %v", code, parked)
		}
		if want := fmt.Sprintf("exit status %s: line one\nwhy %s", code, code); task["result"] != want {
			t.Errorf("exit code %s: result %q, want %q", code, task["result"], want)
		}
	}
}

func TestWorkKillsAfterItsTimeout(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	u.run(sh(hang, "--timeout", "2s", "--max-attempts", "1", "--history", "failures", "--until-empty", "--quiet")...).
		fails(exitFailed, "1 task failed")
	u.gone(u.hangs())
	if task := u.task(id); task["state"] != "POISON" || !strings.Contains(fmt.Sprint(task["result"]), "exceeded Timeout") {
		t.Errorf("%v", task)
	}
	u.run("show", id).has("poisoned")
}

func TestWorkRefusesFlags(t *testing.T) {
	u := newUser(t)
	for flag, bad := range map[string]string{
		"--max-checkout": "0", "--max-attempts": "-1", "--timeout": "-1s", "--poll": "1ms", "--history": "some",
		"--report-interval": "1ms",
		"--keep-poison":     "soon", "--id": strings.Repeat("x", 201), "--drain": "0s", "--lease": "1ms",
		"--concurrency": "0",
	} {
		u.run("work", "-q", "q", flag, bad, "--", "true").fails(exitUsage, flag)
	}
	u.run("work", "-q", "q", "--keep-poison", "-1h", "--", "true").fails(exitUsage, "negative")
}

func TestWorkExhaustsAttempts(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q", "--max-attempts", "1").id()
	u.run(sh("kill -9 $$", "--until-empty", "--quiet")...).fails(exitFailed, "1 task failed")
	if task := u.task(id); task["state"] != "POISON" || task["result"] != "signal: killed" {
		t.Errorf("%v", task)
	}
}

func TestWorkLongOutput(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	u.run(sh("head -c 300000 /dev/zero | tr '\\0' x", "--until-empty")...).ok()
	if got := u.run("show", id, "--result").ok(); len(got) > 4000 || !strings.HasSuffix(got, "[cut from 300000 bytes]") {
		t.Errorf("%d bytes, ending %q", len(got), got[max(0, len(got)-40):])
	}
	id = u.run("enqueue", "-q", "q").id()
	u.run(sh("head -c 300000 /dev/zero | tr '\\0' x >&2; echo the last words >&2; exit 65",
		"--until-empty", "--quiet")...).fails(exitFailed)
	if got := u.run("show", id, "--result").ok(); len(got) > 4000 || !strings.HasPrefix(got, "exit status 65: … x") ||
		!strings.HasSuffix(got, "the last words") {
		t.Errorf("%d bytes, ending %q", len(got), got[max(0, len(got)-40):])
	}
}

// What a program leaves behind in the background must not hold its task up.
func TestWorkDaemon(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	u.run(sh("sleep 100 & echo $! > pid; echo done", "--until-empty")...).ok()
	if pid, err := strconv.Atoi(u.read("pid")); err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("the process left behind is gone: %v", err)
	}
	if task := u.task(id); task["state"] != "COMPLETED" || task["result"] != "done\n" {
		t.Errorf("%v", task)
	}
}

func TestWorkInParallel(t *testing.T) {
	u := newUser(t)
	u.feed(strings.Repeat("{\"queue\":\"q\"}\n", 3), "enqueue", "--lines").ok()
	// Each waits for the other two: only three at the same time get done.
	u.run(sh(`touch here-$DBQ_TASK_ID; until [ $(ls here-* | wc -l) = 3 ]; do sleep 0.01; done`, "--until-empty",
		"-c", "3")...).ok()
}

func TestKilledWorkersTaskIsTakenOver(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	b := u.startProcess(sh(`echo $$ > pid.part; mv pid.part pid; exec sleep 1000`, "--lease", "300ms")...)
	check.Eventually(t, "the program runs", func() bool { return u.read("pid") != "" })
	b.signal(syscall.SIGKILL)
	b.wait()
	pid, err := strconv.Atoi(u.read("pid"))
	check.OK(t, err)
	defer syscall.Kill(-pid, syscall.SIGKILL) // its worker is dead and cannot
	if got := u.task(id)["state"]; got != "PROCESSING" {
		t.Fatalf("state %v", got)
	}
	u.run(sh(`echo $DBQ_ATTEMPT $DBQ_FENCE`, "--until-empty")...).ok()
	task := u.task(id)
	// No record shows that the first attempt had started, so it does not count.
	if task["state"] != "COMPLETED" || task["result"] != fmt.Sprintf("1 %.0f\n", task["fence"]) || task["lapses"] != 1.0 {
		t.Errorf("%v", task)
	}
	attempts, ok := task["attempts"].([]any)
	if !ok || len(attempts) != 2 {
		t.Fatalf("attempts %v", task["attempts"])
	}
	for _, a := range attempts { // the one that crashed, too, and not its checkout's token
		if worker := a.(map[string]any)["worker"].(string); !strings.HasSuffix(worker, "/q") {
			t.Errorf("an attempt by %q", worker)
		}
	}
}

func TestSignalDrains(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(s.String(), func(t *testing.T) {
			u := newUser(t)
			id := u.run("enqueue", "-q", "q").id()
			left := u.run("enqueue", "-q", "q").id()
			b := u.startProcess(sh(`touch started; until [ -e go ]; do sleep 0.01; done; echo drained`)...)
			check.Eventually(t, "the program runs", func() bool { return exists(u.file("started")) })
			b.signal(s)
			check.Eventually(t, "the other task is handed back or was never taken",
				func() bool { return u.task(left)["state"] == "CREATED" })
			u.write("go", "")
			b.wait().ok()
			if task := u.task(id); task["state"] != "COMPLETED" || task["result"] != "drained\n" {
				t.Errorf("%v", task)
			}
			if task := u.task(left); task["attempt"] != 0.0 {
				t.Errorf("the task that was not started: %v", task)
			}
		})
	}
}

// hang is a program that would go on for ever, with a child that would, too.
const hang = `sleep 1000 & echo $! > child; echo $$ > pid.part; mv pid.part pid; wait`

func (u *user) hangs() (pids []int) {
	u.t.Helper()
	check.Eventually(u.t, "the program runs", func() bool { return u.read("pid") != "" })
	for _, name := range []string{"pid", "child"} {
		pid, err := strconv.Atoi(u.read(name))
		if err != nil {
			u.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func (u *user) gone(pids []int) {
	u.t.Helper()
	for _, pid := range pids {
		check.Eventually(u.t, "process "+itoa(pid)+" is gone", func() bool { return !alive(pid) })
	}
}

func TestDrainTimeoutReleasesTheTask(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	b := u.start(sh(hang, "--drain", "100ms")...)
	pids := u.hangs()
	b.stops()
	u.gone(pids)
	if task := u.task(id); task["state"] != "CREATED" || task["attempt"] != 0.0 {
		t.Errorf("the task was not handed back: %v", task)
	}
}

func TestSecondSignalKills(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "q").id()
	b := u.startProcess(sh(hang)...)
	pids := u.hangs()
	b.signal(syscall.SIGTERM)
	b.err.waitFor(t, "stopping: 1 program")
	b.signal(syscall.SIGTERM)
	if o := b.wait(); o.code != exitInterrupted || !strings.Contains(o.err, "dbq: interrupted: ") {
		t.Errorf("exit code %d, stderr %q", o.code, o.err)
	}
	u.gone(pids)
}

func TestRevokedProgramIsKilled(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	b := u.start(sh(hang, "--lease", "300ms")...)
	pids := u.hangs()
	u.run("revoke", id).has("1 task revoked")
	u.gone(pids)
	b.err.waitFor(t, id+"  stopped")
	b.stops()
	if task := u.task(id); task["state"] != "ERROR" || task["parked"] != true {
		t.Errorf("%v", task)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A task that has failed shows when it would be tried for the last time: with the defaults, after about six days.
func TestShowNamesTheLastAttempt(t *testing.T) {
	u := newUser(t)
	id := u.run("enqueue", "-q", "q").id()
	if strings.Contains(u.run("show", id).ok(), "the last one is in") {
		t.Errorf("a task that has not failed shows its last attempt")
	}
	if o := u.run(sh("false", "--until-empty")...); o.code != exitFailed {
		t.Fatalf("it ended with %d: %s", o.code, o.err)
	}
	u.run("show", id).has("1 of 20; the last one is in about ", "with the default pauses")
}
