package sqlrun

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// MoveClock makes all statements of the session read a clock that is ahead of the database's by an SQL expression in
// microseconds, for tests. It must come before the first statement.
func (s *Session) MoveClock(ahead string) {
	now := s.Texts.Now
	m := mover{clockPattern(now), fmt.Sprintf("(%s + %s)", now, ahead)}
	m.move(reflect.ValueOf(&s.Texts).Elem())
	m.move(reflect.ValueOf(&s.Limited).Elem())
	m.move(reflect.ValueOf(&s.Session.Statements).Elem())
}

// clockPattern matches the expression of the clock as statements have it: an expression of several lines is indented as
// each statement is.
func clockPattern(now string) *regexp.Regexp {
	words := strings.Fields(now)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	return regexp.MustCompile(strings.Join(words, `\s+`))
}

// mover replaces the expression of the clock in texts.
type mover struct {
	now   *regexp.Regexp
	moved string
}

func (m mover) move(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.now.ReplaceAllLiteralString(v.String(), m.moved))
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				m.move(f)
			}
		}
	case reflect.Slice:
		if v.Len() > 0 { // it may be shared with other clients
			copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(copied, v)
			v.Set(copied)
		}
		for i := range v.Len() {
			m.move(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return
		}
		moved := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			changed := reflect.New(value.Type()).Elem()
			changed.Set(value)
			m.move(changed)
			moved.SetMapIndex(key, changed)
		}
		v.Set(moved)
	}
}
