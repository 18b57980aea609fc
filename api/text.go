package api

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// surrogate matches an escaped half of a character beyond U+FFFF.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// isText reports whether the texts of a JSON value can be stored as they are. encoding/json replaces what is no UTF-8,
// and half of a surrogate pair, by U+FFFD: two references could become one, and the second task would be lost as a
// duplicate. A payload or a result that is an object or an array is stored as it is written, so that it may have any
// escapes. What is not JSON is refused later.
func isText(value []byte) bool {
	return utf8.Valid(value) && (!surrogate.Match(value) || isPaired(value))
}

func isPaired(value []byte) bool {
	value = bytes.TrimSpace(value)
	switch {
	case len(value) == 0:
	case value[0] == '{':
		var members map[string]json.RawMessage
		_ = json.Unmarshal(value, &members)
		for name, member := range members {
			stored := strings.EqualFold(name, "payload") || strings.EqualFold(name, "result")
			if stored && (member[0] == '{' || member[0] == '[') {
				continue
			}
			if !isPaired(member) {
				return false
			}
		}
	case value[0] == '[':
		var elements []json.RawMessage
		_ = json.Unmarshal(value, &elements)
		for _, element := range elements {
			if !isPaired(element) {
				return false
			}
		}
	case value[0] == '"':
		return !hasHalf(value)
	}
	return true
}

// hasHalf reports whether a JSON string has half of a surrogate pair.
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
