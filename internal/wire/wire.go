// Package wire has the JSON of dbq: the types that the HTTP API reads and writes, package client calls it with, and
// the command line prints; and the table of its problems.
//
// What needs no change on the wire has its JSON where it is declared, such as dbq.Attempt and admin.WorkerInfo.
// Times that pass are numbers of seconds. Bytes are text if they are UTF-8, and otherwise base64.
package wire

import (
	"encoding/json"
	"unicode/utf8"
)

// text returns bytes as text if they are UTF-8, and otherwise for base64. Nil is neither.
func text(b []byte) (text *string, b64 []byte) {
	if b == nil || !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// bytesOf is the reverse of text.
func bytesOf(text *string, b64 []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return b64
}

// anyOf is text for a field that may have any JSON value.
func anyOf(b []byte) (value json.RawMessage, b64 []byte) {
	s, b64 := text(b)
	if s != nil {
		value, _ = json.Marshal(s) // it is UTF-8
	}
	return value, b64
}

// BytesOfAny returns the bytes of a field that may have any JSON value: the bytes of a text, or the value as it is
// written.
func BytesOfAny(field string, value json.RawMessage, b64 []byte) ([]byte, *Problem) {
	given := len(value) > 0 && string(value) != "null"
	switch {
	case given && len(b64) > 0:
		return nil, BadRequest.Problem(Field{"body." + field, "give " + field + " or " + field + "_base64, not both"})
	case len(b64) > 0:
		return b64, nil
	case !given:
		return nil, nil
	case value[0] == '"':
		var s string
		if json.Unmarshal(value, &s) != nil {
			return nil, BadRequest.Problem(Field{"body." + field, "it is not valid JSON"})
		}
		return []byte(s), nil
	}
	return value, nil
}
