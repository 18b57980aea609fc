package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/dbq-go/dbq/internal/wire"
)

// Bounds of a body, besides its size and maxItems of its lists.
const (
	// maxValues is how many values a body may have, without those inside of a payload or a result. 100,000 tasks with 9
	// fields each have as many.
	maxValues = 1_000_000
	// maxNames is how many names an object with names of the caller may have, such as headers.
	maxNames = 1000
	// maxFields is how many fields a problem lists.
	maxFields = 20
)

// bodyCheck checks the bodies of an operation. A handler gets the body as it was checked: encoding/json would take a
// field whose name is written in another case, and merge fields that are repeated.
type bodyCheck struct {
	schemas huma.Registry
	schema  *huma.Schema // nil for an operation without a body
}

// check returns a problem unless a body has the operation's schema. It reads the body before it decodes anything, so
// that a refused body costs nothing else, and so that the decoded form counts before it takes memory.
func (c bodyCheck) check(body []byte, reserved *reservation) *wire.Problem {
	if !json.Valid(body) || !utf8.Valid(body) {
		return wire.BadJSON.Problem()
	}
	s := scan{bodyCheck: c, body: body, place: []byte("body")}
	if p := s.value(c.schema); p != nil {
		return p
	}
	if p := reserved.resize(2*int64(len(body)) + valueBytes*int64(s.values)); p != nil {
		return p
	}
	var value any
	if json.Unmarshal(append(s.shape, body[s.copied:]...), &value) != nil {
		return wire.BadRequest.Problem(wire.At("body", "a number is too large"))
	}
	place, result := huma.NewPathBuffer([]byte("body"), len("body")), huma.ValidateResult{}
	huma.Validate(c.schemas, c.schema, place, huma.ModeWriteToServer, value, &result)
	if len(result.Errors) == 0 {
		return nil
	}
	var fields []wire.Field
	for _, err := range result.Errors[:min(len(result.Errors), maxFields)] {
		f := wire.At("body", "")
		if d, ok := err.(*huma.ErrorDetail); ok {
			f = wire.At(d.Location, d.Message)
		}
		fields = append(fields, shownField(f))
	}
	return wire.BadRequest.Problem(fields...)
}

// scan reads a body, which is valid JSON, once: values can be nested 10,000 deep.
type scan struct {
	bodyCheck
	body   []byte
	at     int
	values int
	place  []byte // of the value at at, as a problem has it
	// shape is the body up to copied, with 0 for each value that is stored as it is written.
	shape  []byte
	copied int
}

func (s *scan) refuse(format string, args ...any) *wire.Problem {
	return wire.BadRequest.Problem(shownField(wire.At(string(s.place), fmt.Sprintf(format, args...))))
}

// value reads a value of a schema.
func (s *scan) value(schema *huma.Schema) *wire.Problem {
	for schema.Ref != "" {
		schema = s.schemas.SchemaFromRef(schema.Ref)
	}
	if s.values++; s.values > maxValues {
		return s.refuse("the body has more than %d values", maxValues)
	}
	s.space()
	begin := s.at
	kind := s.body[begin]
	switch {
	case kind == '"':
		if hasHalf(s.text()) {
			return wire.BadJSON.Problem()
		}
	case schema.Type == "": // any value
		s.skip()
	case kind == '{' && schema.Type == huma.TypeObject:
		return s.object(schema)
	case kind == '[' && schema.Type == huma.TypeArray:
		return s.list(schema)
	case kind == '{' || kind == '[':
		return s.refuse("expected %s", schema.Type)
	// null would stand for a field that was left out: without a filter a request applies to more, and without dry_run
	// it changes tasks. Only a payload or a result can be null.
	case kind == 'n':
		return s.refuse("a value is null; leave the field out if it is to have none")
	default:
		s.skip()
	}
	if schema.Type == "" {
		s.shape, s.copied = append(append(s.shape, s.body[s.copied:begin]...), '0'), s.at
	}
	return nil
}

// object reads an object whose first byte is at s.at.
func (s *scan) object(schema *huma.Schema) *wire.Problem {
	seen := map[string]bool{}
	for s.next('}') {
		raw := s.text()
		if hasHalf(raw) {
			return wire.BadJSON.Problem()
		}
		name := string(raw[1 : len(raw)-1])
		if bytes.IndexByte(raw, '\\') >= 0 {
			_ = json.Unmarshal(raw, &name) // it is valid
		}
		outer := len(s.place)
		s.place = append(append(s.place, '.'), name...)
		of, free := schema.Properties[name], false
		if of == nil {
			of, free = schema.AdditionalProperties.(*huma.Schema)
		}
		switch {
		case of == nil:
			return s.refuse("unexpected property")
		case seen[name]:
			return s.refuse("the field is repeated")
		case free && len(seen) >= maxNames:
			return s.refuse("expected object with at most %d properties", maxNames)
		}
		seen[name] = true
		s.space()
		s.at++ // the colon
		if p := s.value(of); p != nil {
			return p
		}
		s.place = s.place[:outer]
	}
	return nil
}

// list reads a list whose first byte is at s.at.
func (s *scan) list(schema *huma.Schema) *wire.Problem {
	for n := 0; s.next(']'); n++ {
		if schema.MaxItems != nil && n == *schema.MaxItems {
			return s.refuse("expected array length <= %d", n)
		}
		outer := len(s.place)
		s.place = append(strconv.AppendInt(append(s.place, '['), int64(n), 10), ']')
		if p := s.value(schema.Items); p != nil {
			return p
		}
		s.place = s.place[:outer]
	}
	return nil
}

// next goes to the next element of an object or a list. It returns false, behind the end, if there is none.
func (s *scan) next(end byte) bool {
	s.space()
	if s.body[s.at] != end { // the opening bracket, or a comma
		s.at++
		s.space()
	}
	if s.body[s.at] == end {
		s.at++
		return false
	}
	return true
}

func (s *scan) space() {
	for s.at < len(s.body) && bytes.IndexByte([]byte(" \t\r\n"), s.body[s.at]) >= 0 {
		s.at++
	}
}

// text reads a string with its quotes.
func (s *scan) text() []byte {
	begin := s.at
	for s.at++; s.body[s.at] != '"'; s.at++ {
		if s.body[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.body[begin:s.at]
}

// skip reads a value of any kind, without its texts.
func (s *scan) skip() {
	for depth := 0; s.at < len(s.body); {
		switch s.body[s.at] {
		case '"':
			s.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return
			}
		}
		if depth < 0 {
			return
		}
		s.at++
	}
}

// hasHalf reports whether a JSON string has half of a surrogate pair. encoding/json replaces it by U+FFFD: two
// references could become one, and the second task would be lost as a duplicate.
func hasHalf(quoted []byte) bool {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		switch first := escaped(quoted[i:]); {
		case !utf16.IsSurrogate(first):
			i++ // of another escape, all that matters is that it is not a backslash that is taken for a beginning
		case utf16.DecodeRune(first, escaped(quoted[i+6:])) == utf8.RuneError:
			return true
		default:
			i += 11
		}
	}
	return false
}

// escaped returns the character of the escape \uXXXX at the beginning of a text, or -1.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
