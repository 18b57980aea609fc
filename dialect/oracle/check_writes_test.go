package oracle

import "slices"

// writes: an INSERT has a value for each of its columns, and each that must be said; an UPDATE sets columns that can
// be, once.
func (c *checker) writes() {
	for i := range c.tokens {
		switch {
		case c.follows(i, "INSERT INTO"):
			c.insert(i)
		case c.at(i) == "UPDATE" && c.at(i-1) != "FOR":
			c.update(i)
		case c.at(i) == "DELETE" && c.at(i+1) != "FROM":
			c.say("DELETE without FROM")
		}
	}
}

// table is the one that is named at i, and where its name ends.
func (c *checker) table(i int) (columns []column, end int) {
	if c.at(i+1) == "." {
		i += 2
	}
	columns, ok := c.schema[c.at(i)]
	if !ok {
		c.say("no table %s", c.at(i))
	}
	return columns, i
}

// items splits what stands in the parentheses that open at i by its commas, and says where they close.
func (c *checker) items(i int) (items [][]token, end int) {
	depth := c.tokens[i].depth
	items = [][]token{nil}
	for k := i + 1; k < len(c.tokens); k++ {
		t := c.tokens[k]
		switch {
		case t.depth == depth && t.text == ")":
			return items, k
		case t.depth == depth+1 && t.text == "," && t.kind == sign:
			items = append(items, nil)
		default:
			items[len(items)-1] = append(items[len(items)-1], t)
		}
	}
	return items, len(c.tokens)
}

func (c *checker) insert(i int) {
	columns, k := c.table(i + 2)
	if c.at(k+1) != "(" {
		c.say("an INSERT without columns")
		return
	}
	named, end := c.items(k + 1)
	seen := map[string]bool{}
	for _, item := range named {
		name := item[0].text
		at := slices.IndexFunc(columns, func(x column) bool { return x.name == name })
		if at < 0 || columns[at].virtual || len(item) != 1 || seen[name] {
			c.say("an INSERT cannot fill %s", name)
		}
		seen[name] = true
	}
	for _, x := range columns {
		if x.mustSay && !seen[x.name] {
			c.say("an INSERT leaves out %s, which may not be null", x.name)
		}
	}
	given, after := [][]token(nil), 0
	switch {
	case c.follows(end+1, "VALUES ("):
		given, after = c.items(end + 2)
	case c.at(end+1) == "SELECT":
		given = c.selected(end + 1)
	default:
		c.say("an INSERT without VALUES or SELECT")
		return
	}
	if len(given) != len(named) || slices.ContainsFunc(given, func(x []token) bool { return len(x) == 0 }) {
		c.say("an INSERT has %d columns and %d values", len(named), len(given))
	}
	if after > 0 && c.at(after+1) == "," {
		c.say("an INSERT of several rows")
	}
}

// selected splits what the SELECT at i asks for by its commas.
func (c *checker) selected(i int) [][]token {
	depth, items := c.tokens[i].depth, [][]token{nil}
	for k := i + 1; k < len(c.tokens); k++ {
		t := c.tokens[k]
		switch {
		case t.depth == depth && c.at(k) == "FROM":
			return items
		case t.depth == depth && t.text == "," && t.kind == sign:
			items = append(items, nil)
		default:
			items[len(items)-1] = append(items[len(items)-1], t)
		}
	}
	return items
}

func (c *checker) update(i int) {
	columns, k := c.table(i + 1)
	if c.at(k+1) != "SET" {
		c.say("an UPDATE without SET")
		return
	}
	seen := map[string]bool{}
	where := false
	for _, j := range c.block(k + 2) {
		name := c.at(j)
		begins := j == k+2 || c.at(j-1) == "," && c.tokens[j-1].depth == c.tokens[j].depth // an assignment
		if where = where || name == "WHERE"; where || !begins {
			if name == "FROM" && !where {
				c.say("an UPDATE with FROM")
			}
			continue
		}
		at := slices.IndexFunc(columns, func(x column) bool { return x.name == name })
		if at < 0 || columns[at].virtual || seen[name] || c.at(j+1) != "=" {
			c.say("an UPDATE cannot set %s", name)
		}
		seen[name] = true
	}
	if !where {
		c.say("an UPDATE without WHERE")
	}
}
