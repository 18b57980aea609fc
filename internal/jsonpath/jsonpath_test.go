package jsonpath

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

func paths(t testing.TB, texts ...string) (out []Path) {
	t.Helper()
	for _, text := range texts {
		p, err := Parse(text)
		check.OK(t, err)
		out = append(out, p)
	}
	return out
}

var replacement = []byte(`"X"`)

func TestSelectedValuesAreReplacedAndOtherBytesKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, text, want string }{
		{"$.card.number", `{"card": {"number": "4111", "name":"A"}}`, `{"card": {"number": "X", "name":"A"}}`},
		{"$.items[*].secret", `{"items":[{"secret":1},{"secret":[2]},3]}`, `{"items":[{"secret":"X"},{"secret":"X"},3]}`},
		{"$[1]", ` [ 0 , 1 , {"1":2} ] `, ` [ 0 , "X" , {"1":2} ] `},
		{"$['1']", `{"1":{"a":[]},"2":2}`, `{"1":"X","2":2}`},
		{"$.*", `{"a":1,"b":{}}`, `{"a":"X","b":"X"}`},
		{"$..pin", `{"pin":1,"a":[{"pin":{"pin":2}},{"b":{"pin":null}}]}`, `{"pin":"X","a":[{"pin":"X"},{"b":{"pin":"X"}}]}`},
		{"$.a..b.c", `{"a":{"x":[{"b":{"c":1,"d":2}}],"b":{"b":{"c":3}}},"b":{"c":4}}`,
			`{"a":{"x":[{"b":{"c":"X","d":2}}],"b":{"b":{"c":"X"}}},"b":{"c":4}}`},
		{"$..[0]", `{"a":[1,[2,3]]}`, `{"a":["X",["X",3]]}`},
		{"$..*", `{"a":[1]}`, `{"a":"X"}`},
		{"$.a", `{"a":1,"b":2,"a":{"c":3}}`, `{"a":"X","b":2,"a":"X"}`},
		{"$.a", `{"\u0061":1,"A":2}`, `{"\u0061":"X","A":2}`},
		{"$['a-b\\'\"\\u00e4']", `{"a-b'\"ä":1}`, `{"a-b'\"ä":"X"}`},
		{`$["]"]`, `{"]":"}"}`, `{"]":"X"}`},
		{"$.ä", `{"\u00e4":1}`, `{"\u00e4":"X"}`},
		{"$.b", `{"n":123456789012345678901234567890.10e+1,"z":1,"b":-0,"a":"\ud83d\ude00 \\\""}`,
			`{"n":123456789012345678901234567890.10e+1,"z":1,"b":"X","a":"\ud83d\ude00 \\\""}`},
		{"$.a.b", `{"a":[{"b":1}],"b":{"a":2}}`, `{"a":[{"b":1}],"b":{"a":2}}`},
		{"$.a", `[]`, `[]`},
	} {
		got, ok := Replace([]byte(c.text), paths(t, c.path), replacement)
		if !ok || string(got) != c.want {
			t.Errorf("%s in %s: %s %t, want %s", c.path, c.text, got, ok, c.want)
		}
	}
}

func TestOtherTextsAreNotReplacedInPart(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "card=4111", `"{\"a\":1}"`, "4111", "null", `{"a":1`, `{"a":1} {"a":2}`,
		"{\"a\":1}\n{\"a\":2}", "\xef\xbb\xbf{}", "{\"\xff\":1}", `{a:1}`, strings.Repeat("[", 20_000)} {
		if got, ok := Replace([]byte(text), paths(t, "$.a"), replacement); ok || got != nil {
			t.Errorf("%.40q: got %s, %t", text, got, ok)
		}
	}
	if got, ok := Replace([]byte(`{}`), paths(t, "$.a", "$"), replacement); ok || got != nil {
		t.Errorf("all of it: got %s, %t", got, ok)
	}
}

func TestDeepAndLargeTextsTakeLittleTime(t *testing.T) {
	t.Parallel()
	start := time.Now()
	all := paths(t, "$..a..a..a..b", "$..*..b", "$.a.a.b", "$..a[*]..b")
	deep := strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)
	large := "[" + strings.Repeat(`{"a":{"c":1}},`, 200_000) + `{"a":{"b":"secret"}}]`
	for _, text := range []string{deep, large} {
		got, ok := Replace([]byte(text), all, replacement)
		if !ok || bytes.Contains(got, []byte("secret")) {
			t.Errorf("a text of %d bytes: %t", len(text), ok)
		}
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestOtherPathsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", ".a", "$a", "$.", "$..", "$...a", "$.[0]", "$[-1]", "$[01]", "$[1:2]", "$[0,1]",
		"$[?@.a]", "$.a-b", "$.0", "$['a]", "$['a'", "$[a]", "$['\\x']", "$[\"a\n\"]", "$ .a", "$.a ", "$['a','b']",
		"$[1000000000]", "$.\xff", "$" + strings.Repeat(".a", 600)} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%q is the path %v", text, p)
		}
	}
}

// selected replaces what a path selects in a decoded text, as RFC 9535 defines it.
func selected(v any, path Path) any {
	if len(path) == 0 {
		return "X"
	}
	s := path[0]
	child := func(v any, name string, index int) any {
		if s.deep {
			v = selected(v, path)
		}
		if s.every || s.index == index && (index >= 0 || s.name == name) {
			v = selected(v, path[1:])
		}
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = child(v[name], name, -1)
		}
	case []any:
		for i := range v {
			v[i] = child(v[i], "", i)
		}
	}
	return v
}

func plain(text []byte) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v) // it was valid
	return v
}

// FuzzReplace compares Replace with a replacement in the decoded text.
func FuzzReplace(f *testing.F) {
	f.Add("$.a..b[1]['c d'].*", []byte(`{"a": [{"b":[0,{"c d":{"x":1,"y":[]}}]}], "n":1e400}`))
	f.Add("$..*", []byte(`[1,[2],{"":{}}]`))
	f.Add("$..a", []byte(`{"a":1,"\u0061":2,"b":{"a":"\"}"}}`))
	f.Fuzz(func(t *testing.T, text string, in []byte) {
		path, err := Parse(text)
		if err != nil || len(path) > 4 || len(in) > 500 { // the comparison takes long
			return
		}
		got, ok := Replace(in, []Path{path}, replacement)
		if !ok {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%s in %s: %s is not JSON", text, in, got)
		}
		want := selected(plain(in), path)
		if have := plain(got); fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("%s in %s: %s\nis   %v\nwant %v", text, in, got, have, want)
		}
		if again, ok := Replace(got, []Path{path}, replacement); !ok || !bytes.Equal(again, got) {
			t.Errorf("%s in %s: replaced again, it is %s", text, got, again)
		}
	})
}
