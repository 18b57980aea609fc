package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/redact"
)

// secret is in the passwords of DSNs here, and must be in nothing that dbq says.
const secret = "Tr0ub4dor"

// hostileDSNs are DSNs of the server with a password that holds the secret, well formed and not, by what is wrong with
// them.
func hostileDSNs(t *test, u *url.URL) map[string]string {
	const plain, escaped = "hush hush/" + secret, "hush%20hush%2F" + secret
	variant := func(change func(u *url.URL)) string {
		v := *u
		v.User = url.UserPassword("dbq_nobody", plain)
		change(&v)
		return v.String()
	}
	good := variant(func(*url.URL) {})
	before, after, _ := strings.Cut(good, "dbq_nobody:"+escaped+"@")
	out := map[string]string{
		"a wrong user":           good,
		"a wrong database":       variant(func(u *url.URL) { u.Path = "/dbq_nosuchdb" }),
		"a closed port":          variant(func(u *url.URL) { u.Host = t.closedPort() }),
		"an unknown host":        variant(func(u *url.URL) { u.Host = "nosuchhost.invalid" }),
		"an impossible port":     strings.Replace(good, u.Host, u.Hostname()+":99x", 1),
		"a broken escape":        strings.Replace(good, u.Host, u.Host+"%zz", 1),
		"a broken password":      before + "app@srv:SE%zz" + secret + "@" + after,
		"a user of a server":     before + "app@srv:" + secret + "@" + after,
		"a slash in the user":    before + "app/x:" + secret + "@" + after,
		"a hash in the user":     before + "app#x:" + secret + "@" + after,
		"a question in the user": before + "app?x:" + secret + "@" + after,
		"no password in front":   before + secret + "@" + after + "/",
		"the driver's own form":  strings.TrimSuffix(before, "//") + "app:" + secret + "@tcp(127.0.0.1:1)/app",
		"keys and values":        "host=127.0.0.1 password=" + secret,
		"a description": before + "app:" +
			secret + "@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=127.0.0.1)(PORT=1)))",
		"an unknown option":         variant(func(u *url.URL) { u.RawQuery = "sslmode=nonsense&nonsense=" + escaped }),
		"a password as an option":   variant(func(u *url.URL) { u.RawQuery = "password=" + secret }),
		"a quoted option":           variant(func(u *url.URL) { u.RawQuery = "password='ab'" + secret }),
		"an escaped option":         variant(func(u *url.URL) { u.RawQuery = "pass%77ord=" + secret }),
		"an option in capitals":     variant(func(u *url.URL) { u.RawQuery = "PASSWORD=" + secret }),
		"an option without a value": variant(func(u *url.URL) { u.RawQuery = "password=a&" + secret }),
		"a key's password":          variant(func(u *url.URL) { u.RawQuery = "sslmode=require&sslpassword=" + secret }),
		"a hostless URL":            variant(func(u *url.URL) { u.Host = "" }),
		"a space in it":             strings.Replace(good, escaped, plain, 1),
	}
	for _, sign := range "@#/?:%[&'" { // a password pasted as it is, which parsers take apart in their own ways
		out[fmt.Sprintf("a %c in it", sign)] = strings.Replace(good, escaped, fmt.Sprintf("%s%c%s", secret, sign, secret), 1)
	}
	return out
}

func errorsPassword(t *test) {
	for what, dsn := range hostileDSNs(t, t.serverURL()) {
		var errs []error
		c, err := dbq.Open(t.ctx, dsn, t.options()...)
		if err == nil { // a server that lets anybody in has nothing to tell
			t.showsNoSecret("the client of "+what, c)
			c.Close()
		}
		errs = append(errs, err)
		_, _, err = dbq.Migrate(t.ctx, dsn, t.options()...)
		errs = append(errs, err, dbq.DropTables(t.ctx, dsn, t.options()...))
		for _, err := range errs {
			t.showsNoSecret("the error of "+what, err)
			if text, found := reaches(reflect.ValueOf(err), map[uintptr]bool{}); found {
				t.Errorf("the error of %s carries the password: %q in %+v", what, text, err)
			}
		}
		if text := redact.TargetOf(dsn).String(); strings.Contains(text, secret) {
			t.Errorf("the target of %s shows the password: %s", what, text)
		}
	}
}

// showsNoSecret checks that neither a value nor any error that it wraps shows the secret, however it is printed.
func (t *test) showsNoSecret(what string, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s"} {
		if text := fmt.Sprintf(verb, v); strings.Contains(text, secret) {
			t.Errorf("%s shows the password by %s: %s", what, verb, text)
		}
	}
	if text, err := json.Marshal(v); err == nil && strings.Contains(string(text), secret) {
		t.Errorf("%s shows the password as JSON: %s", what, text)
	}
	err, ok := v.(error)
	if !ok || err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, cause := range many.Unwrap() {
			t.showsNoSecret(what, cause)
		}
	} else if cause := errors.Unwrap(err); cause != nil {
		t.showsNoSecret(what, cause)
	}
}

// reaches reports whether the secret can be reached from a value by its fields, as a program that collects errors would
// reach it.
func reaches(v reflect.Value, seen map[uintptr]bool) (string, bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), strings.Contains(v.String(), secret)
	case reflect.Interface:
		return reaches(v.Elem(), seen)
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return "", false
		}
		seen[v.Pointer()] = true
		return reaches(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			if text, found := reaches(v.Field(i), seen); found {
				return text, true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			return string(v.Bytes()), strings.Contains(string(v.Bytes()), secret)
		}
		for i := range min(v.Len(), 1000) {
			if text, found := reaches(v.Index(i), seen); found {
				return text, true
			}
		}
	case reflect.Map:
		for k, e := range v.Seq2() {
			for _, x := range []reflect.Value{k, e} {
				if text, found := reaches(x, seen); found {
					return text, true
				}
			}
		}
	}
	return "", false
}
