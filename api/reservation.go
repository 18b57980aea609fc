package api

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/callers"
	"github.com/dbq-go/dbq/internal/wire"
)

// How many bytes of memory a request counts.
const (
	// valueBytes is the size of a value of a body while it is checked, decoded and enqueued.
	valueBytes = 200
	// taskBytes is the size of a task of a response without its payload.
	taskBytes = 2000
	// escapedBytes is the size of a byte of a payload: itself, and its text, which may be an escape of six bytes.
	escapedBytes = 7
)

// reservation is the memory reserved for a request, of the bytes that all requests share. It is for one goroutine.
type reservation struct {
	shared *callers.Places
	caller string
	most   int64 // of one request, which can always run alone
	held   int64
}

// resize makes a request count n bytes from now on. It returns a problem if there is no room for them. What every
// request may take counts nothing, so that a caller with large requests does not stop the small ones of others.
func (r *reservation) resize(n int64) *wire.Problem {
	if n <= maxSmallBody {
		n = 0
	}
	n = min(n, r.most)
	switch more := n - r.held; {
	case more > 0 && !r.shared.Take(r.caller, more):
		return wire.Busy.Problem()
	case more < 0:
		r.shared.Release(r.caller, -more)
	}
	r.held = n
	return nil
}

// sizeOf returns how many bytes the tasks of a response take: their payloads, as bytes and as text.
func sizeOf(tasks []dbq.Task) (n int64) {
	for _, t := range tasks {
		n += taskBytes + 2*int64(len(t.Payload))
	}
	return n
}

// kept keeps the body of a response, so that a handler's resources are free before the response is sent: a caller may
// take any time to read it.
type kept struct {
	http.ResponseWriter
	text []byte
}

func (k *kept) Write(b []byte) (int, error) {
	k.text = append(k.text, b...)
	return len(b), nil
}

// readBody reads the whole body, of at most maxBody bytes, before the deadline of observed. It then ends the deadline,
// which would end requests that wait. A large body of unknown length counts as the largest until it has arrived.
func readBody(w http.ResponseWriter, r *http.Request, maxBody int64, reserved *reservation) ([]byte, *wire.Problem) {
	if hasNoBody(r.Method) {
		maxBody = min(maxBody, maxSmallBody)
	}
	if r.ContentLength > maxBody {
		return nil, wire.BodyTooLarge.Problem()
	}
	var buffer bytes.Buffer
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	n, err := buffer.ReadFrom(io.LimitReader(limited, maxSmallBody))
	if err == nil && n == maxSmallBody {
		size := maxBody
		if r.ContentLength > 0 {
			size = r.ContentLength
		}
		if p := reserved.resize(size); p != nil {
			return nil, p
		}
		_, err = buffer.ReadFrom(limited)
	}
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		return nil, wire.BodyTooLarge.Problem()
	case errors.As(err, &slow) && slow.Timeout():
		w.Header().Set("Connection", "close")
		return nil, wire.BodyTimeout.Problem()
	case err != nil:
		return nil, wire.BadBody.Problem()
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not every server has it
	return buffer.Bytes(), reserved.resize(int64(buffer.Len()))
}
