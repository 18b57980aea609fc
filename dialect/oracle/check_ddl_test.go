package oracle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// create reads the columns of tables and views into the schema.
func (c *checker) create() {
	switch {
	case c.follows(0, "CREATE TABLE"):
		name, k := c.newName(2)
		items, _ := c.items(k + 1)
		var columns []column
		for _, item := range items {
			has := func(w string) bool {
				return slices.ContainsFunc(item, func(t token) bool { return t.kind == word && t.text == w })
			}
			if item[0].text == "CONSTRAINT" {
				c.tooLong(item[1].text)
				c.names[item[1].text] = true
				continue
			}
			c.notReserved(item[0].text)
			virtual := has("VIRTUAL")
			columns = append(columns, column{item[0].text, virtual, has("NOT") && !has("DEFAULT") && !virtual})
		}
		c.schema[name] = columns
	case c.follows(0, "CREATE OR REPLACE VIEW"):
		name, k := c.newName(4)
		if !c.follows(k+1, "AS SELECT") {
			c.say("a view without AS SELECT")
			return
		}
		var columns []column
		block := c.block(k + 2)
		for n, j := range block {
			if next := c.at(j + 1); c.tokens[j].kind == word && (next == "," || next == "FROM") && n > 0 && len(columns) < 100 {
				columns = append(columns, column{name: c.at(j)})
				c.notReserved(c.at(j))
				if c.at(j-1) == "AS" {
					c.names[c.at(j)] = true
				}
			}
			if c.at(j) == "FROM" {
				break
			}
		}
		c.names[name] = true
		c.view = func() { c.schema[name] = columns } // what it reads must be there before
	case c.follows(0, "CREATE UNIQUE INDEX"), c.follows(0, "CREATE INDEX"):
		name, k := c.newName(2 + btoi(c.at(1) == "UNIQUE"))
		c.names[name] = true
		if c.at(k+1) != "ON" {
			c.say("an index that is ON nothing")
			return
		}
		c.table(k + 2)
	}
}

// comment matches a comment on a table, a view or a column. A colon in it could be taken for a bind.
var comment = regexp.MustCompile(`\ACOMMENT ON (TABLE|COLUMN) ([\w.]+)\s+IS\s+'[^':]+'\z`)

// checkComment returns what is wrong with a comment, given the tables that were made before it.
func checkComment(s schema, text string) []string {
	m := comment.FindStringSubmatch(text)
	if m == nil {
		return []string{"this is not how a comment is written"}
	}
	names := strings.Split(strings.ToUpper(m[2]), ".")
	name := ""
	if m[1] == "COLUMN" {
		names, name = names[:len(names)-1], names[len(names)-1]
	}
	columns, found := s[names[len(names)-1]]
	if !found || name != "" && !slices.ContainsFunc(columns, func(c column) bool { return c.name == name }) {
		return []string{fmt.Sprintf("there is no %s %s", m[1], m[2])}
	}
	return nil
}

// newName is the name of what is created at i, and where it ends.
func (c *checker) newName(i int) (string, int) {
	if c.at(i+1) == "." {
		c.tooLong(c.at(i))
		c.names[c.at(i)] = true
		i += 2
	}
	c.notReserved(c.at(i))
	c.tooLong(c.at(i))
	return c.at(i), i
}

// longest is the longest name in bytes that every version and setting of Oracle takes.
const longest = 30

func (c *checker) tooLong(name string) {
	if len(name) > longest {
		c.say("the name %s is longer than %d bytes", name, longest)
	}
}
