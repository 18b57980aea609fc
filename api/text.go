package api

import (
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

// isPaired reads the value once: values can be nested 10,000 deep.
func isPaired(value []byte) bool {
	depth, stored := 0, 0 // stored is the depth of an object or array that is stored as it is written
	named := false        // the last string may be the name of one
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '{', '[':
			if depth++; stored == 0 && named {
				stored = depth
			}
			named = false
		case '}', ']':
			if depth == stored {
				stored = 0
			}
			depth--
		case ',':
			named = false
		case '"':
			text := quoted(value[i:])
			if stored == 0 && hasHalf(text) {
				return false
			}
			named = isStored(text)
			i += len(text) - 1
		}
	}
	return true
}

// isStored reports whether a JSON string is the name of a member that is stored as it is written.
func isStored(quoted []byte) bool {
	var name string
	return len(quoted) < 64 && json.Unmarshal(quoted, &name) == nil &&
		(strings.EqualFold(name, "payload") || strings.EqualFold(name, "result"))
}

// quoted returns the JSON string at the beginning of a text.
func quoted(text []byte) []byte {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i+1]
		}
	}
	return text
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
