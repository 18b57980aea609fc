package dialect

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const mask = "xxxxx"

var (
	// password in a query (?password=...) or a keyword DSN (password=...); the value ends at a separator
	passwordParam = regexp.MustCompile(`(?i)((?:password|passwd|pwd|sslpassword|token)=)('[^']*'|[^&\s;]*)`)
	// scheme://user:password@host: everything from the first colon of the user part to the last @ before the path
	userInfo = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*:(?://)?)([^:/?#@]*):(.*)@([^@]*)$`)
)

// Redact is the DSN with its password replaced, for messages and logs. It reads the text rather than parsing it, so that a
// DSN too broken to parse keeps its secret too.
func Redact(dsn string) string {
	dsn = passwordParam.ReplaceAllString(dsn, "${1}"+mask)
	return userInfo.ReplaceAllString(dsn, "${1}${2}:"+mask+"@${4}")
}

// passwords lists the secrets in a DSN in the forms in which a message may show them, the longest first.
func passwords(dsn string) []string {
	var out []string
	add := func(s string) {
		quoted := strconv.Quote(s) // %q of a URL, as url.Parse has it in its errors
		_, escaped, _ := strings.Cut(url.UserPassword("", s).String(), ":")
		out = append(out, s, quoted[1:len(quoted)-1], escaped, url.QueryEscape(s))
	}
	secret := func(s string) {
		s = strings.Trim(s, "'")
		add(s)
		if plain, err := url.PathUnescape(s); err == nil {
			add(plain)
		}
		if plain, err := url.QueryUnescape(s); err == nil {
			add(plain)
		}
		// A parser that was misled by these shows what it took for a host or a port.
		for _, piece := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("@:/?#[]", r) }) {
			add(piece)
		}
	}
	for _, m := range passwordParam.FindAllStringSubmatch(dsn, -1) {
		secret(m[2])
	}
	if m := userInfo.FindStringSubmatch(dsn); m != nil {
		secret(m[3])
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(out)
}

// Scrub hides the DSN's passwords in the text of err; errors.Is and errors.As still reach what it wraps. A driver's error
// may print the DSN that it could not parse, and %q of a URL prints its password.
func Scrub(err error, dsn string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, p := range passwords(dsn) {
		if len(p) > 2 { // a shorter one would mask half of the message; such a password is not printed by any driver alone
			text = strings.ReplaceAll(text, p, mask)
		}
	}
	text = strings.ReplaceAll(text, dsn, Redact(dsn))
	if text == err.Error() {
		return err
	}
	return &scrubbed{text: text, err: err}
}

type scrubbed struct {
	text string
	err  error
}

func (s *scrubbed) Error() string { return s.text }
func (s *scrubbed) Unwrap() error { return s.err }
