package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dsnredact"
)

func errorCases() []Case {
	cases := []Case{
		{Name: "CancelledContext", run: errorsCancelled,
			Law: "Every call whose context has ended returns the context's error and changes nothing."},
		{Name: "MissingTable", run: errorsMissingTable,
			Law: "When the tables of an open client are dropped, its calls return ErrNotMigrated."},
		{Name: "ErrorFields", run: errorsFields,
			Law: "An error names the operation, the task and the queue."},
		{Name: "NoPasswordInAnyError", run: errorsPassword,
			Law: "No error of Open, and no client, shows or contains the password of the DSN."},
		{Name: "UnreachableServer", run: errorsUnreachable,
			Law: "Opening a server that cannot be reached returns ErrUnavailable."},
	}
	for i := range cases {
		cases[i].Once = true
	}
	return inGroup("Errors", cases...)
}

// wantInvalid checks that an error is its own sentinel, ErrInvalid, and a *dbq.Error.
func (t *test) wantInvalid(what string, err, want error) {
	t.wantErr(what, err, want)
	t.wantErr(what, err, dbq.ErrInvalid)
	var e *dbq.Error
	t.failIf(!errors.As(err, &e) || e.Op == "", "%s: got %#v, want a *dbq.Error that says what was done", what, err)
}

func errorsCancelled(t *test) {
	c := t.open()
	task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	before := t.get(c, task.ID)
	waiting := t.get(c, t.enqueue(c.Queue("q"), dbq.NewTask{}))
	cancelled, cancel := context.WithCancel(t.ctx)
	cancel()
	late, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, call := range allCalls(c, task.Lease) {
		t.wantErr(call.name+" with a cancelled context", t.makeCall(cancelled, c, call), context.Canceled)
		t.wantErr(call.name+" after its deadline", t.makeCall(late, c, call), context.DeadlineExceeded)
	}
	t.wantUnchanged("a cancelled call", c, before)
	t.wantUnchanged("a cancelled call", c, waiting)
	t.wantCount(c, "", 2)
	_, err := dbq.Open(cancelled, t.DSN, t.options()...)
	t.wantErr("open with a cancelled context", err, context.Canceled)
	_, _, err = dbq.Migrate(cancelled, t.DSN, t.options()...)
	t.wantErr("migrate with a cancelled context", err, context.Canceled)
}

func errorsMissingTable(t *test) {
	c := t.open()
	task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	t.must(dbq.DropTables(t.ctx, t.DSN, t.options()...))
	for _, call := range allCalls(c, task.Lease) {
		if call.name == "now" {
			continue // reads no table
		}
		err := t.makeCall(t.ctx, c, call)
		t.wantErr(call.name+" without tables", err, dbq.ErrNotMigrated)
		var e *dbq.Error
		t.failIf(!errors.As(err, &e) || e.Class != dialect.Missing,
			"%s without tables: got %#v, want class missing", call.name, err)
	}
}

func errorsFields(t *test) {
	c := t.open()
	waiting := t.enqueue(c.Queue("q"), dbq.NewTask{})
	lost := dbq.Lease{TaskID: waiting, Queue: "q", Fence: 7}
	for op, got := range map[string]struct {
		err   error
		queue string
	}{
		"complete": {c.Queue("q").Complete(t.ctx, lost, nil), "q"},
		"fail":     {c.Queue("q").Settle(t.ctx, lost, dbq.Parked(nil)), "q"},
		"purge":    {admin.New(c).Operate(t.ctx, admin.Purge, waiting), ""},
	} {
		var e *dbq.Error
		t.failIf(!errors.As(got.err, &e) || e.Op != op || e.Queue != got.queue || e.TaskID != waiting || e.Err == nil,
			"%s of task %s: got %#v", op, waiting, got.err)
	}
}

// serverURL parses the DSN. It skips the case unless the DSN is a URL with a host.
func (t *test) serverURL() *url.URL {
	u, err := url.Parse(t.DSN)
	if err != nil || u.Host == "" {
		t.Skipf("the DSN is not a URL with a host")
	}
	return u
}

// closedPort returns an address on which no program listens.
func (t *test) closedPort() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}

func errorsUnreachable(t *test) {
	u := t.serverURL()
	u.Host = t.closedPort()
	_, err := dbq.Open(t.ctx, u.String(), t.options()...)
	t.wantErr("open of a port where no server listens", err, dbq.ErrUnavailable)
	var e *dbq.Error
	t.failIf(!errors.As(err, &e) || e.Op != "open" || e.Class != dialect.Unavailable,
		"got %#v, want op open and class unavailable", err)
	_, _, err = dbq.Migrate(t.ctx, u.String(), t.options()...)
	t.wantErr("migrate there", err, dbq.ErrUnavailable)
}

// secret is in the passwords of DSNs here, and must be in nothing that dbq prints.
const secret = "Tr0ub4dor"

// hostileDSNs are DSNs of the server with a password that holds the secret, well formed and not, by their defects.
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
		if err == nil { // a server that accepts any password
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
		if text := dsnredact.TargetOf(dsn).String(); strings.Contains(text, secret) {
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
