// Package dsnredact hides the secrets of a DSN, and shows its target.
package dsnredact

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

const mask = "xxxxx"

// schemeBefore matches the start of a DSN.
var schemeBefore = regexp.MustCompile(`(?i)^[a-z0-9+-]*:`)

// secretName matches the names of parameters with secret values, in any spelling.
var secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|credential`)

// secretParam finds such parameters in a text that is not a URL, such as host=db password='a b'.
var secretParam = regexp.MustCompile(
	`(?i)(?:pass|pwd|secret|token|credential)[a-z_+ -]*=\s*('(?:[^'\\]|\\.|'')*'\S*|[^&\s;]*)`,
)

// secretsIn lists the secrets of a DSN in every form in which a message can contain them, longest first.
func secretsIn(dsn string) []string {
	var out []string
	add := func(s string) {
		quoted := strconv.Quote(s) // %q of a URL, as in the errors of url.Parse
		_, escaped, _ := strings.Cut(url.UserPassword("", s).String(), ":")
		forms := []string{
			s, quoted[1 : len(quoted)-1], strings.TrimSuffix(escaped, "@"), url.QueryEscape(s), url.PathEscape(s),
		}
		for _, form := range forms {
			if len(form) > 2 { // a shorter form would mask much of the message; no driver prints such a password alone
				out = append(out, form)
			}
		}
	}
	secret := func(s string) {
		for _, plain := range unescaped(s) {
			add(plain)
		}
		if unquoted := strings.ReplaceAll(s, "'", ""); unquoted != s {
			add(unquoted)
		}
	}
	rest := strings.TrimPrefix(dsn, schemeBefore.FindString(dsn))
	drv, _ := dialect.Lookup(dsn)
	d, err := dialect.ParseDSN(dsn)
	switch {
	case err == nil:
		secret(d.Password)
		if !d.HasPassword && !d.Params.Has("password") {
			secret(d.User) // which may be a misplaced password; servers repeat it when they refuse access
			d.User = ""
		}
		for name, values := range d.Params {
			if secretName.MatchString(name) {
				for _, v := range values {
					secret(v)
				}
			}
		}
	case !drv.File || TargetOf(dsn).Database == "":
		// It is not known which part of it is secret, or how a parser reads it.
		before, _, isDescription := strings.Cut(rest, "@(") // Oracle's user:password@(DESCRIPTION=...)
		if !isDescription {
			before = rest
		}
		secret(before)
		for _, text := range unescaped(before) {
			for _, piece := range strings.FieldsFunc(text, isDelimiter) {
				secret(piece)
			}
		}
	}
	for _, m := range secretParam.FindAllStringSubmatch(dsn, -1) {
		secret(m[1])
		secret(strings.Trim(m[1], "'"))
	}
	// A password that is also a name, as in postgres:postgres@, cannot be hidden where the name is shown.
	names := append(
		strings.FieldsFunc(d.Hosts, func(r rune) bool { return r == ',' || r == ':' }),
		d.Scheme,
		d.User,
		d.Database,
	)
	out = slices.DeleteFunc(out, func(s string) bool { return slices.Contains(names, s) })
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(out)
}

// unescaped returns a text, and the same text with its escapes decoded.
func unescaped(s string) []string {
	out := []string{s}
	for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
		if plain, err := unescape(s); err == nil && !slices.Contains(out, plain) {
			out = append(out, plain)
		}
	}
	return out
}

// isDelimiter reports whether a parser of DSNs can end a part at r.
func isDelimiter(r rune) bool { return strings.ContainsRune("@:/?#[]&=;,()'\" \t\n", r) }

// Scrub hides the secrets of a DSN in the text of err. It is the second line of defense: dbq's dialects keep secrets
// out of their errors, but a driver or a server can repeat one. errors.Is, errors.As and errors.Unwrap do not reach
// an error whose text contains a secret; they still reach the causes without one.
func Scrub(err error, dsn string) error { return NewScrubber(dsn)(err) }

// NewScrubber returns a function that is Scrub for one DSN. The function can be kept where a DSN should not be.
func NewScrubber(dsn string) func(error) error {
	if dsn == "" {
		return func(err error) error { return err }
	}
	hide := append([]string{dsn}, secretsIn(dsn)...)
	target := TargetOf(dsn).String()
	return func(err error) error {
		var plain interface{ ShowsNoDSN() }
		if err == nil || errors.As(err, &plain) { // the example in its text may look like a secret
			return err
		}
		text := strings.ReplaceAll(err.Error(), dsn, target)
		for _, s := range hide[1:] {
			text = strings.ReplaceAll(text, s, mask)
		}
		if text == err.Error() {
			return err
		}
		return &scrubbed{text: text, causes: withoutSecrets(err, hide)}
	}
}

// withoutSecrets lists the outermost errors in the tree of err whose texts contain no secret.
func withoutSecrets(err error, hide []string) []error {
	shows := func(s string) bool { return strings.Contains(err.Error(), s) }
	if !slices.ContainsFunc(hide, shows) {
		return []error{err}
	}
	var out []error
	switch e := err.(type) { // this function walks the tree itself
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			out = append(out, withoutSecrets(cause, hide)...)
		}
	default:
		if cause := errors.Unwrap(err); cause != nil {
			out = withoutSecrets(cause, hide)
		}
	}
	return out
}

// scrubbed is an error with another text.
type scrubbed struct {
	text   string
	causes []error
}

func (s *scrubbed) Error() string   { return s.text }
func (s *scrubbed) Unwrap() []error { return s.causes }
