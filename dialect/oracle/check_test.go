package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// schema is what DDL has made: the columns of each table and view by their names in capitals.
type schema map[string][]column

type column struct {
	name             string
	virtual, mustSay bool // mustSay is NOT NULL without a default
}

func (s schema) has(name string) bool {
	for _, columns := range s {
		if slices.ContainsFunc(columns, func(c column) bool { return c.name == name }) {
			return true
		}
	}
	return false
}

// checker reads one statement as it is sent. It knows of Oracle's grammar what our statements use, and refuses the rest. It is no
// parser and no server: it finds what is known to be refused or misread, and names that are nowhere declared.
type checker struct {
	schema   schema
	tokens   []token
	names    map[string]bool // that the statement declares: variables, cursors, aliases
	view     func()          // puts the view that the statement creates into the schema
	problems []string
}

// check reads a statement with its bound values' number, and adds what it creates to the schema.
func check(s schema, text string, values int) []string {
	tokens, problems := lex(text)
	if len(problems) > 0 || len(tokens) == 0 {
		return append(problems, strings.Repeat("the statement is empty", btoi(len(tokens) == 0)))
	}
	c := &checker{schema: s, tokens: tokens, names: map[string]bool{}}
	c.ends()
	c.values(values)
	c.balance()
	c.declare()
	c.selects()
	c.neighbours()
	c.writes()
	c.create()
	c.inner()
	c.vocabulary()
	if c.view != nil {
		c.view()
	}
	return c.problems
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *checker) say(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// at is the text of a word, number or sign, "" beyond the ends and for a literal.
func (c *checker) at(i int) string {
	if i < 0 || i >= len(c.tokens) || c.tokens[i].kind == literal {
		return ""
	}
	return c.tokens[i].text
}

// follows reports whether the tokens from i on are these.
func (c *checker) follows(i int, texts string) bool {
	for k, text := range strings.Fields(texts) {
		if c.at(i+k) != text {
			return false
		}
	}
	return true
}

func (c *checker) isBlock() bool { return c.at(0) == "BEGIN" || c.at(0) == "DECLARE" }

// ends: a block ends in END; and SQL in nothing.
func (c *checker) ends() {
	n := len(c.tokens)
	if c.isBlock() {
		if !c.follows(n-2, "END ;") {
			c.say("a block does not end in END;")
		}
		return
	}
	if first := c.at(0); !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP"}, first) {
		c.say("a statement begins with %s", first)
	}
	for i := range c.tokens {
		if t := c.at(i); t == ";" || t == ":=" || t == ".." || t == "=>" || t == "%" {
			c.say("%s in plain SQL", t)
		}
	}
}

// values: :arg1 to :argN, in order, each once, as many as arguments.
func (c *checker) values(want int) {
	n := 0
	for _, t := range c.tokens {
		if t.kind == value {
			if n++; t.text != fmt.Sprintf(":arg%d", n) {
				c.say("the value %d is called %s", n, t.text)
			}
		}
	}
	if n != want {
		c.say("%d values are asked for and %d are given", n, want)
	}
}

// balance: each BEGIN, CASE, IF and LOOP has its own END.
func (c *checker) balance() {
	var open []string
	for i := 0; i < len(c.tokens); i++ {
		switch t := c.at(i); t {
		case "BEGIN", "CASE", "IF", "LOOP":
			open = append(open, t)
		case "EXCEPTION":
			if len(open) == 0 || open[len(open)-1] != "BEGIN" {
				c.say("EXCEPTION is not a BEGIN's own")
			}
		case "END":
			was, means := "", "BEGIN"
			if len(open) > 0 {
				was, open = open[len(open)-1], open[:len(open)-1]
			}
			if next := c.at(i + 1); next == "IF" || next == "LOOP" {
				means, i = next, i+1
			}
			if was != means && !(was == "CASE" && means == "BEGIN") {
				c.say("END closes a %s, where %q is open", means, was)
			}
			if was != "CASE" && c.at(i+1) != ";" {
				c.say("END of %s is not followed by a semicolon", was)
			}
		}
	}
	if len(open) > 0 {
		c.say("%v not ended", open)
	}
}

// declare collects the names that the statement makes itself: what a block declares, aliases of tables and of results.
func (c *checker) declare() {
	begin := slices.IndexFunc(c.tokens, func(t token) bool { return t.text == "BEGIN" && t.kind == word })
	for i, t := range c.tokens {
		if t.kind != word {
			continue
		}
		prev, next := c.at(i-1), c.at(i+1)
		isVariable := strings.HasPrefix(t.text, "L_") || strings.HasPrefix(t.text, "P_") || strings.HasPrefix(t.text, "C_")
		_, isTable := c.schema[prev]
		switch {
		case c.isBlock() && i < begin && (prev == "DECLARE" || prev == ";") && isVariable,
			c.isBlock() && i < begin && (prev == "CURSOR" || prev == "TYPE"),
			c.isBlock() && i < begin && prev == "(" && isVariable,
			prev == "FOR" && next == "IN", prev == "FORALL" && next == "IN",
			prev == "AS" && !c.follows(0, "CREATE OR REPLACE VIEW") && !c.castTo(i):
			c.declared(t.text)
		case isTable && !sqlWords[t.text] && slices.Contains([]string{"FROM", ",", "UPDATE", "JOIN"}, c.at(c.tableStart(i-1)-1)):
			c.declared(t.text)
		case prev == "AS" && t.text != "SELECT" && !c.castTo(i):
			c.notReserved(t.text)
		}
		if prev == "AS" && slices.Contains([]string{"FROM", "JOIN", "UPDATE", "INTO"}, c.at(c.tableStart(i-2)-1)) {
			c.say("a table's alias with AS")
		}
	}
}

// castTo reports whether the AS before i is a CAST's.
func (c *checker) castTo(i int) bool {
	for k := i; k >= 0; k-- {
		if c.at(k) == "(" && c.tokens[k].depth == c.tokens[i].depth-1 {
			return c.at(k-1) == "CAST"
		}
	}
	return false
}

// tableStart is where the name of a table begins that ends at i, with its schema or not.
func (c *checker) tableStart(i int) int {
	if c.at(i-1) == "." {
		return i - 2
	}
	return i
}

func (c *checker) declared(name string) {
	c.notReserved(name)
	c.names[name] = true
}

func (c *checker) notReserved(name string) {
	if reserved[name] && name != "DATE" && name != "RAW" {
		c.say("the reserved word %s is used as a name", name)
	}
}

// block is the part of the query, block or statement that begins at i: its tokens outside of inner parentheses.
func (c *checker) block(i int) []int {
	var out []int
	depth := c.tokens[i].depth
	for k := i; k < len(c.tokens); k++ {
		t := c.tokens[k]
		if t.depth < depth || t.depth == depth && c.at(k) == ";" {
			break
		}
		if t.depth == depth {
			if t.kind == word && slices.Contains([]string{"UNION", "INTERSECT", "MINUS"}, t.text) {
				out = append(out, k)
				break
			}
			out = append(out, k)
		}
	}
	return out
}

// selects: each has a FROM; a cut or grouped one cannot be locked; clauses stand in Oracle's order.
func (c *checker) selects() {
	for i := range c.tokens {
		if c.at(i) != "SELECT" || c.tokens[i].kind != word {
			continue
		}
		has := map[string]int{}
		for _, k := range c.block(i) {
			if c.tokens[k].kind == word {
				switch t := c.at(k); {
				case t == "FETCH" && !c.follows(k, "FETCH FIRST") && !c.follows(k, "FETCH NEXT"):
				case t == "FOR" && c.at(k+1) != "UPDATE":
				case has[t] == 0:
					has[t] = k + 1
				}
			}
		}
		if has["FROM"] == 0 {
			c.say("a SELECT without FROM")
		}
		if has["ROWNUM"] > 0 && has["ORDER"] > 0 {
			c.say("ROWNUM counts before ORDER BY sorts")
		}
		if locks := has["FOR"]; locks > 0 {
			for _, w := range []string{"FETCH", "GROUP", "DISTINCT", "UNION", "INTERSECT", "MINUS", "COUNT", "MAX", "MIN", "ROWNUM"} {
				if has[w] > 0 {
					c.say("FOR UPDATE in a query with %s (ORA-02014)", w)
				}
			}
		}
		for _, order := range [][2]string{{"FROM", "WHERE"}, {"WHERE", "GROUP"}, {"WHERE", "ORDER"}, {"ORDER", "FETCH"}, {"WHERE", "FETCH"}, {"ORDER", "OFFSET"}, {"ORDER", "FOR"}, {"WHERE", "FOR"}} {
			if a, b := has[order[0]], has[order[1]]; a > b && b > 0 {
				c.say("%s behind %s", order[0], order[1])
			}
		}
	}
	for i := range c.tokens {
		switch {
		case c.at(i) == "SKIP" && !c.follows(i-2, "FOR UPDATE SKIP LOCKED"):
			c.say("SKIP LOCKED without FOR UPDATE")
		case c.at(i) == "FETCH" && c.at(i+1) == "FIRST" && !(c.tokens[min(i+2, len(c.tokens)-1)].kind == value && c.follows(i+3, "ROWS ONLY")):
			c.say("FETCH FIRST is not of the form FETCH FIRST :value ROWS ONLY")
		case c.at(i) == "OFFSET" && !(c.tokens[min(i+1, len(c.tokens)-1)].kind == value && c.follows(i+2, "ROWS FETCH NEXT 1 ROWS ONLY")):
			c.say("OFFSET is not of the form OFFSET :value ROWS FETCH NEXT 1 ROWS ONLY")
		case c.at(i) == "ROWNUM" && !(c.at(i+1) == "<=" && c.tokens[min(i+2, len(c.tokens)-1)].kind == value && (c.at(i-1) == "AND" || c.at(i-1) == "WHERE")):
			c.say("ROWNUM is not of the form AND ROWNUM <= :value")
		case c.at(i) == "LIMIT" && !(c.isBlock() && c.follows(i-2, "INTO "+c.at(i-1)) && c.follows(i-4, "BULK COLLECT")):
			c.say("LIMIT other than of BULK COLLECT")
		case c.at(i) == "RETURNING" && !slices.ContainsFunc(c.block(i), func(k int) bool { return c.at(k) == "INTO" }):
			c.say("RETURNING without INTO")
		case (c.at(i) == "TRUE" || c.at(i) == "FALSE") && !c.isBlock():
			c.say("a truth value in SQL")
		case c.tokens[i].kind == literal && c.tokens[i].text == "":
			c.say("an empty text, which is null")
		case c.at(i) == "NULL" && (c.at(i-1) == "=" || c.at(i-1) == "<>") && !c.inSet(i):
			c.say("a comparison with null")
		}
	}
}

// inSet reports whether i stands in an UPDATE's SET.
func (c *checker) inSet(i int) bool {
	ended := 0 // CASE expressions on the way back
	for k := i - 1; k >= 0; k-- {
		switch c.at(k) {
		case "END":
			ended++
		case "CASE":
			ended--
		case "SET":
			return true
		case "WHERE", "WHEN", "SELECT", ";", "CHECK":
			if ended <= 0 {
				return false
			}
		}
	}
	return false
}

// isOperand reports whether i is a name, or what else has a value, and not a word of the language.
func (c *checker) isOperand(i int) bool {
	if i < 0 {
		return false
	}
	t := c.tokens[i]
	return t.kind == value || t.kind == number || t.kind == literal || t.text == ")" && t.kind == sign ||
		t.kind == word && !sqlWords[t.text] && !(c.isBlock() && blockWords[t.text])
}

// neighbours: two operands have something between them; only a table is followed by its alias.
func (c *checker) neighbours() {
	if c.at(0) == "CREATE" || c.at(0) == "DROP" {
		return
	}
	for i, t := range c.tokens {
		if !c.isOperand(i-1) || !c.isOperand(i) || t.text == ")" && t.kind == sign {
			continue
		}
		isType := c.follows(0, "DECLARE TYPE "+t.text) // of a variable before it
		if _, isTable := c.schema[c.at(i-1)]; !isTable && !isType || t.kind != word {
			c.say("nothing between %s and %s", c.tokens[i-1].text, t.text)
		}
	}
}

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

// inner checks what a block executes as text, with what is put into it taken for a number.
func (c *checker) inner() {
	for i := range c.tokens {
		if !c.follows(i, "EXECUTE IMMEDIATE") {
			continue
		}
		text := ""
		for k := i + 2; k < len(c.tokens) && c.at(k) != ";"; k++ {
			switch t := c.tokens[k]; {
			case t.kind == literal:
				text += t.text
			case t.text != "||":
				text += "0"
			}
		}
		for _, p := range check(c.schema, text, 0) {
			c.say("in what is executed: %s", p)
		}
	}
}

// vocabulary: each word is one of the language's, or a name that is known, and is not too long.
func (c *checker) vocabulary() {
	isDDL := c.at(0) == "CREATE" || c.at(0) == "DROP"
	for i, t := range c.tokens {
		if t.kind != word {
			continue
		}
		c.tooLong(t.text)
		_, isTable := c.schema[t.text]
		_, beforeTable := c.schema[c.at(i+2)]
		switch {
		case c.at(i-1) == "." && c.names[c.at(i-2)] && !isDDL:
			if !c.schema.has(t.text) && t.text != "COUNT" {
				c.say("no column %s", t.text)
			}
		case sqlWords[t.text], functions[t.text], c.names[t.text], isTable, c.schema.has(t.text), t.text == "DUAL":
		case isDDL && ddlWords[t.text], c.isBlock() && (blockWords[t.text] || ofBlocks[t.text]):
		case c.at(i+1) == "." && beforeTable: // its schema
		case isDDL && c.at(i+1) == "." && c.names[c.at(i+2)]:
		default:
			c.say("the word %s is neither Oracle's nor a name that is known here", t.text)
		}
		if (c.at(i+1) == "(") && !functions[t.text] && !c.isBlock() && !isDDL && !sqlWords[t.text] && !isTable {
			c.say("%s is no function", t.text)
		}
	}
}
