package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/api"
)

// streaming sends a stream whose lines the test writes, and returns its response.
func (s *site) streaming() (lines *io.PipeWriter, response func() *http.Response) {
	s.t.Helper()
	body, lines := io.Pipe()
	s.t.Cleanup(func() { lines.Close() })
	r, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+mail+"/tasks/stream", body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	got := make(chan *http.Response, 1)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			s.t.Error(err)
		}
		got <- response
	}()
	return lines, func() *http.Response {
		s.t.Helper()
		response := <-got
		if response == nil {
			s.t.FailNow()
		}
		s.t.Cleanup(func() { response.Body.Close() })
		return response
	}
}

// TestStreamAnswersARefusedLineAtOnce sends a line, and the next one after the answer.
func TestStreamAnswersARefusedLineAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lines, response := s.streaming()
	began := time.Now()
	fmt.Fprintln(lines, `{"payload":`)
	answers := bufio.NewReader(response().Body)
	for number, next := range []string{`{"planted":1}`, `{}`, ""} {
		l, err := answers.ReadString('\n')
		if err != nil || !strings.Contains(l, fmt.Sprintf(`"line":%d`, number+1)) {
			t.Fatalf("%q, %v", l, err)
		}
		fmt.Fprintln(lines, next)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the answers took %v", took)
	}
}

// TestStreamEnqueuesALineThatOthersFollow sends a task, and then lines without any, faster than a batch waits.
func TestStreamEnqueuesALineThatOthersFollow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lines, response := s.streaming()
	fmt.Fprintln(lines, `{}`)
	stop := make(chan struct{})
	go func() {
		defer lines.Close()
		for range 200 {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				fmt.Fprintln(lines)
			}
		}
	}()
	began := time.Now()
	l, err := bufio.NewReader(response().Body).ReadString('\n')
	close(stop)
	if took := time.Since(began); err != nil || !strings.Contains(l, `"id"`) || took > 5*time.Second {
		t.Errorf("%q, %v after %v", l, err, took)
	}
}

// TestStreamEndsAfterLinesWithoutTasks sends a task and then, for longer than a response may take, lines without any.
func TestStreamEndsAfterLinesWithoutTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.BodyTimeout, c.Timeout = time.Second, time.Second })
	lines, response := s.streaming()
	go func() {
		fmt.Fprintln(lines, `{}`)
		for range 12 {
			time.Sleep(250 * time.Millisecond)
			fmt.Fprintln(lines)
		}
		fmt.Fprintln(lines, `{"planted":1}`)
		lines.Close()
	}()
	b, err := io.ReadAll(response().Body)
	if err != nil || !strings.Contains(string(b), `"line":1,`) || !strings.Contains(string(b), `"line":14,`) {
		t.Errorf("%s, %v", b, err)
	}
}
