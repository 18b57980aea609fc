package oracle

import (
	"fmt"
	"regexp"
	"strings"
)

// A token is a piece of SQL or PL/SQL. Words are in capitals, since Oracle reads names so.
type token struct {
	kind  kind
	text  string // of a literal its content
	depth int    // of parentheses around it
}

type kind int

const (
	word kind = iota
	number
	literal
	value // a bound one, with its colon
	sign
)

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c == '#' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

var (
	hint      = regexp.MustCompile(`^/\*\+ INDEX\(t [a-z][a-z0-9_]*_(pk|ready|busy)\) \*/`)
	stateName = regexp.MustCompile(`^/\* (CREATED|PROCESSING|COMPLETED|ERROR|POISON) \*/`)
)

// lex splits a text, and says what no statement of ours may hold: what is not closed, quoted names, characters that
// Oracle does not know, and comments (go-ora reads texts by its own scanner, which some confuse) but for a hint
// behind a SELECT and a state's name behind its number.
func lex(text string) (tokens []token, problems []string) {
	depth := 0
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i := 0; i < len(text); {
		c := text[i]
		rest := text[i:]
		j := i + 1
		switch {
		case c == ' ' || c == '\n':
			i++
			continue
		case c == '\'':
			content := ""
			for closed := false; !closed; {
				end := strings.IndexByte(text[j:], '\'')
				if end < 0 {
					say("a literal is not closed: %s", rest)
					return tokens, problems
				}
				content += text[j : j+end]
				j += end + 1
				if j < len(text) && text[j] == '\'' { // two are one
					content += "'"
					j++
				} else {
					closed = true
				}
			}
			tokens = append(tokens, token{literal, content, depth})
		case strings.HasPrefix(rest, "/*"):
			var last token
			if len(tokens) > 0 {
				last = tokens[len(tokens)-1]
			}
			comment := stateName
			if last.text == "SELECT" {
				comment = hint
			}
			found := comment.FindString(rest)
			if found == "" || last.text != "SELECT" && last.kind != number {
				say("a comment that is no hint behind a SELECT and no state's name behind its number: %s", rest)
				return tokens, problems
			}
			j = i + len(found)
		case strings.HasPrefix(rest, "--"):
			say("a comment: %s", rest)
			return tokens, problems
		case c == ':' && j < len(text) && isWordByte(text[j]):
			for j < len(text) && isWordByte(text[j]) {
				j++
			}
			tokens = append(tokens, token{value, text[i:j], depth})
		case '0' <= c && c <= '9':
			for j < len(text) && '0' <= text[j] && text[j] <= '9' {
				j++
			}
			if j < len(text) && isWordByte(text[j]) {
				say("a name begins with a digit: %s", rest)
			}
			tokens = append(tokens, token{number, text[i:j], depth})
		case isWordByte(c):
			for j < len(text) && isWordByte(text[j]) {
				j++
			}
			if c == '_' || c == '$' || c == '#' {
				say("a name begins with %c: %s", c, text[i:j])
			}
			tokens = append(tokens, token{word, strings.ToUpper(text[i:j]), depth})
		default:
			for _, two := range []string{":=", "||", "<=", ">=", "<>", "..", "=>"} {
				if strings.HasPrefix(rest, two) {
					j = i + 2
				}
			}
			s := text[i:j]
			if j == i+1 && !strings.ContainsRune("()+-*/,.;=<>%", rune(c)) {
				say("the character %q: %s", c, rest)
			}
			if s == ")" {
				depth--
			}
			if depth < 0 {
				say("a parenthesis is closed that is not open: %s", rest)
				depth = 0
			}
			tokens = append(tokens, token{sign, s, depth})
			if s == "(" {
				depth++
			}
		}
		i = j
	}
	if depth != 0 {
		say("%d parentheses are not closed", depth)
	}
	return tokens, problems
}
