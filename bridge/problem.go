package bridge

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// problem is a response that is not a success, in the form of RFC 9457. It never contains a part of the request.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	retryAfter int // seconds; 0 is none
}

const problemPrefix = "urn:dbq:problem:"

// refuse returns a problem. name is the last part of its type.
func refuse(status int, name, detail string) *problem {
	return &problem{
		Type: problemPrefix + name, Title: http.StatusText(status), Status: status, Detail: detail,
	}
}

func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	writeJSON(w, p.Status, p)
}

// writeJSON writes a response. If the client is gone, nobody reads it.
func writeJSON(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
