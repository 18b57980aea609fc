package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
)

// maxProblem limits a response that reports an error, in bytes.
const maxProblem = 64 << 10

// Pauses between repeated requests.
const (
	firstPause    = 100 * time.Millisecond
	maxPause      = 10 * time.Second
	maxRetryAfter = time.Minute
)

// call sends one request and reads its response into out. in is the body, or nil for a GET.
func (c *Client) call(ctx context.Context, path string, in, out any) error {
	method, body := http.MethodGet, []byte(nil)
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%w: %w", errEncode, err)
		}
		method, body = http.MethodPost, encoded
	}
	token, err := c.token()
	if err != nil {
		return &unsentError{err}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return &unsentError{errors.New("client: the request is invalid")} // the error has the URL
	}
	r.Header.Set("User-Agent", "dbq")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return c.failed(ctx, method, token, err)
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return readProblem(response, token)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, c.cfg.MaxResponse+1))
	switch {
	case err != nil:
		return c.failed(ctx, method, token, err)
	case int64(len(text)) > c.cfg.MaxResponse:
		return &lostError{method, fmt.Sprintf("the response has more than %d bytes; raise MaxResponse", c.cfg.MaxResponse),
			errTooLarge}
	case json.Unmarshal(text, out) != nil: // its error can contain a part of the response
		return &lostError{method, "the response is not the JSON of dbq serve", nil}
	}
	return nil
}

// repeat calls do until it succeeds or is refused, until RetryFor has passed, or until ctx ends. do gets the number of
// earlier tries. If an earlier try may have changed something, so may the whole call.
func (c *Client) repeat(ctx context.Context, op string, do func(ctx context.Context, tries int) error) error {
	end, pause, unsure := time.Now().Add(c.cfg.RetryFor), firstPause, error(nil)
	for tries := 0; ; tries++ {
		err := once(ctx, callTimeout, func(ctx context.Context) error { return do(ctx, tries) })
		if err != nil && mayHaveHappened(err) {
			unsure = err
		}
		wait := pauseFor(err, pause)
		if err == nil || !isTransient(err) || ctx.Err() != nil || time.Now().Add(wait).After(end) {
			if err != nil && unsure != nil && !mayHaveHappened(err) {
				err = fmt.Errorf("%w; before: %w", err, unsure)
			}
			return err
		}
		c.cfg.Logger.WarnContext(ctx, "client: a call is repeated",
			"op", op, "error", bounds.Brief(err.Error()), "pause", wait.Round(time.Millisecond).String())
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		pause = min(2*pause, maxPause)
	}
}

// once calls do with a time-out.
func once(ctx context.Context, timeout time.Duration, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return do(ctx)
}

// pauseFor returns how long to wait after an error: at least the given pause with jitter, and the pause that the server
// requests.
func pauseFor(err error, pause time.Duration) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		pause = max(pause, p.RetryAfter)
	}
	return pause + rand.N(pause/2+1)
}

// readProblem reads a response that reports an error. The texts of known problems come from this program, so the server
// cannot put anything into them.
func readProblem(response *http.Response, token string) error {
	wait := duration.RetryAfter(response.Header.Get("Retry-After"), time.Now())
	p := &Problem{Status: response.StatusCode, RetryAfter: min(wait, maxRetryAfter)}
	var body wire.Problem
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // the status is enough
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if media == wire.MediaType && json.Unmarshal(text, &body) == nil {
		p.read(&body, token)
	}
	if p.Type == "" {
		p.readStatus()
	}
	return p
}
