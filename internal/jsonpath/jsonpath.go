// Package jsonpath replaces the values that paths select in a JSON text, and keeps every other byte.
package jsonpath

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path selects values of a JSON text, in the subset of RFC 9535 that Parse reads.
type Path []segment

// segment selects children of a value.
type segment struct {
	deep  bool // also members of its descendants
	every bool // all children, or else:
	name  string
	index int // of an element, or -1 for a member
}

// The parts of a path, after "$". A name in quotes may have escapes.
var (
	shortName = regexp.MustCompile(`^[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_\x{80}-\x{10FFFF}]*`)
	brackets  = regexp.MustCompile(`^\[[ \t]*(?:(\*)|(0|[1-9][0-9]{0,8})|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))[ \t]*\]`)
)

const maxPath = 1000 // characters

var errPath = errors.New("a path is $ and any number of .name, ..name, ['name'], [0], [*] and .*")

// Parse reads a path: $, and then any number of .name, ['name'], [0], [*] and .*, each of which may begin with two
// dots to select at any depth. Slices, negative indexes, filters and lists of selectors are refused.
func Parse(text string) (Path, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok || len(text) > maxPath || !utf8.ValidString(text) {
		return nil, errPath
	}
	path := Path{}
	for rest != "" {
		s := segment{index: -1}
		dot := false
		if rest, s.deep = strings.CutPrefix(rest, ".."); !s.deep {
			rest, dot = strings.CutPrefix(rest, ".")
		}
		if m := brackets.FindStringSubmatch(rest); m != nil && !dot {
			s.every = m[1] != ""
			if m[2] != "" {
				s.index, _ = strconv.Atoi(m[2]) // of at most nine digits
			}
			if m[3] != "" && json.Unmarshal([]byte(doubleQuoted(m[3])), &s.name) != nil {
				return nil, errPath
			}
			rest = rest[len(m[0]):]
		} else if !dot && !s.deep {
			return nil, errPath
		} else if after, star := strings.CutPrefix(rest, "*"); star {
			s.every, rest = true, after
		} else if s.name = shortName.FindString(rest); s.name != "" {
			rest = rest[len(s.name):]
		} else {
			return nil, errPath
		}
		path = append(path, s)
	}
	return path, nil
}

// doubleQuoted returns a quoted name as a string of JSON.
func doubleQuoted(name string) string {
	if name[0] == '"' {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 1; i < len(name)-1; i++ {
		switch {
		case name[i] == '"':
			b.WriteString(`\"`)
		case name[i] == '\\' && name[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case name[i] == '\\':
			b.WriteString(name[i : i+2])
			i++
		default:
			b.WriteByte(name[i])
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Replace returns a JSON text in which each value that a path selects is replaced by another one, which is JSON too.
// All other bytes stay as they are, such as the digits of numbers, the order of members, and duplicate names, each of
// which is selected. It returns nil and false if the text is not a JSON object or array, or if a path selects all of
// it.
func Replace(text []byte, paths []Path, by []byte) ([]byte, bool) {
	r := replacer{in: text, by: by, paths: paths}
	if !json.Valid(text) || !utf8.Valid(text) { // a valid text is at most 10,000 deep
		return nil, false
	}
	if r.space(); text[r.at] != '{' && text[r.at] != '[' {
		return nil, false
	}
	for i, p := range paths {
		if len(p) == 0 {
			return nil, false
		}
		r.states = append(r.states, state{i, 0})
	}
	r.container(0)
	return append(r.out, text[r.copied:]...), true
}

// state is a path of which some segments have led to a value.
type state struct{ path, done int }

// replacer walks through a valid text.
type replacer struct {
	in, out, by []byte
	at, copied  int // the next byte of in, and the next one that is not in out
	paths       []Path
	states      []state // of the value, after the states of the values that contain it
}

// container walks through an object or an array, whose states begin at from.
func (r *replacer) container(from int) {
	object, to := r.in[r.at] == '{', len(r.states)
	r.at++
	for i := 0; ; i++ {
		if r.space(); r.in[r.at] == '}' || r.in[r.at] == ']' {
			r.at++
			return
		}
		name, index := "", i
		if object {
			start := r.at
			r.skip()
			name, index = decoded(r.in[start:r.at]), -1
			r.space()
		}
		selected, start := r.step(from, to, name, index), r.at
		switch open := r.in[r.at]; {
		case selected:
			r.skip()
			r.out = append(append(r.out, r.in[r.copied:start]...), r.by...)
			r.copied = r.at
		case len(r.states) > to && (open == '{' || open == '['):
			r.container(to)
		default:
			r.skip()
		}
		r.states = r.states[:to]
	}
}

// step adds the states of a child, and reports whether a path selects it. A member has the index -1.
func (r *replacer) step(from, to int, name string, index int) (selected bool) {
	add := func(s state) {
		if !slices.Contains(r.states[to:], s) {
			r.states = append(r.states, s)
		}
	}
	for _, s := range r.states[from:to] {
		path := r.paths[s.path]
		next := path[s.done]
		if next.deep {
			add(s)
		}
		if !next.every && (next.index != index || index < 0 && next.name != name) {
			continue
		}
		if s.done+1 == len(path) {
			return true
		}
		add(state{s.path, s.done + 1})
	}
	return false
}

// space skips the space between values and names.
func (r *replacer) space() {
	for r.at < len(r.in) && strings.IndexByte(" \t\r\n,:", r.in[r.at]) >= 0 {
		r.at++
	}
}

// skip skips a value or a name.
func (r *replacer) skip() {
	for depth := 0; ; {
		switch c := r.in[r.at]; c {
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case '"':
			for r.at++; r.in[r.at] != '"'; r.at++ {
				if r.in[r.at] == '\\' {
					r.at++
				}
			}
			r.at++
		default:
			for strings.IndexByte(" \t\r\n,:]}", r.in[r.at]) < 0 { // a container always follows
				r.at++
			}
		}
		if depth == 0 {
			return
		}
		r.space()
	}
}

// decoded returns the text of a string of JSON.
func decoded(quoted []byte) (text string) {
	if text = string(quoted[1 : len(quoted)-1]); strings.IndexByte(text, '\\') >= 0 {
		_ = json.Unmarshal(quoted, &text) // it is valid
	}
	return text
}
