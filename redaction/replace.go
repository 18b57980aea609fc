package redaction

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// maxDepth is how deep a text may be: below it, what $..a..b selects could be more than fits in memory.
const maxDepth = 100

// replace returns a JSON text in which "[redacted]" stands for each value that a path selects. Numbers stay as they are
// written, and members are sorted. It returns false if the text is not a JSON object or array, is deeper than maxDepth,
// or if a path selects all of it.
func replace(text []byte, paths []*jsonpath.Path) ([]byte, bool) {
	v, err := decode(text)
	if err != nil {
		return nil, false
	}
	for _, p := range paths {
		for at := range p.SelectLocated(v).Paths() {
			if len(at) == 0 {
				return nil, false
			}
			hide(v, at)
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil, false
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), true
}

var errNotContainer = errors.New("not a JSON object or array")

// decode reads an object or an array.
func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	depth := 0
	for {
		t, err := d.Token()
		if err == io.EOF {
			break
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if err != nil || depth > maxDepth {
			return nil, errNotContainer
		}
	}
	d = json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = errNotContainer
	}
	switch v.(type) {
	case map[string]any, []any:
		return v, err
	}
	return nil, errNotContainer
}

// hide replaces the value at a path, unless one that contains it has been replaced.
func hide(v any, at spec.NormalizedPath) {
	for i, s := range at {
		last := i == len(at)-1
		switch s := s.(type) {
		case spec.Name:
			m, ok := v.(map[string]any)
			if !ok {
				return
			}
			if last {
				m[string(s)] = redacted
			}
			v = m[string(s)]
		case spec.Index:
			a, ok := v.([]any)
			if !ok {
				return
			}
			if last {
				a[s] = redacted
			}
			v = a[s]
		}
	}
}

// parse reads a path of RFC 9535.
func parse(text string) (*jsonpath.Path, error) {
	p, err := jsonpath.Parse(text)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "jsonpath: ", "not a path of RFC 9535: "))
	}
	return p, nil
}
