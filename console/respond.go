package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// compressFrom is the length from which a response is compressed.
const compressFrom = 1 << 10

// gzips are writers to use again: each has more than half a megabyte.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// compressed returns a text as gzip.
func compressed(text []byte) []byte {
	var out bytes.Buffer
	w := gzips.Get().(*gzip.Writer)
	defer gzips.Put(w)
	w.Reset(&out)
	_, _ = w.Write(text) // a buffer takes all
	_ = w.Close()
	return out.Bytes()
}

// acceptsGzip reports whether a browser can read gzip.
func acceptsGzip(r *http.Request) bool {
	for _, encoding := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(encoding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, isQ := strings.CutPrefix(strings.TrimSpace(quality), "q=")
			n, err := strconv.ParseFloat(q, 64)
			return !isQ || err == nil && n > 0
		}
	}
	return false
}

// respond sends a response, as gzip if the browser can read it. small is the body as gzip; if it is nil, the body is
// compressed if it is long. It is not compressed for other sites: by its length, a page that shows their text beside
// another one would tell them whether the two are alike.
func respond(w http.ResponseWriter, r *http.Request, status int, body, small []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	foreign := small == nil && strings.HasSuffix(r.Header.Get("Sec-Fetch-Site"), "-site") // cross-site or same-site
	if len(body) >= compressFrom && acceptsGzip(r) && !foreign {
		if small == nil {
			small = compressed(body)
		}
		h.Set("Content-Encoding", "gzip")
		body = small
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the browser may be gone
}

// unchanged sets the tag of a response, and answers that the browser has it if the request says so.
func unchanged(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	for _, has := range strings.Split(r.Header.Get("If-None-Match"), ",") {
		if strings.TrimSpace(has) == tag {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

// passing matches what differs between two readings of the same state: how long ago a time was, which a script keeps up
// to date, and when the page was read.
var passing = regexp.MustCompile(`(<time [^>]* data-relative>)[^<]*|<p id="read"[^>]*>.*?</p>`)

// tagOf returns the tag of a page that refreshes itself.
func tagOf(page []byte) string {
	sum := sha256.Sum256(passing.ReplaceAll(page, []byte("$1")))
	return `W/"` + hex.EncodeToString(sum[:12]) + `"`
}
