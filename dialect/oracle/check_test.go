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

// checker reads one statement as it is sent. It knows of Oracle's grammar what our statements use, and refuses the
// rest. It is no parser and no server: it finds what is known to be refused or misread, and names that are nowhere
// declared.
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
	c.neighbors()
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

// beforeTables are the words that a table with an alias follows.
var beforeTables = []string{"FROM", ",", "UPDATE", "JOIN"}

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
		case isTable && !sqlWords[t.text] && slices.Contains(beforeTables, c.at(c.tableStart(i-1)-1)):
			c.declared(t.text)
		case c.namesView(i):
			c.declared(t.text)
		case prev == "AS" && t.text != "SELECT" && !c.castTo(i):
			c.notReserved(t.text)
		}
		if prev == "AS" && slices.Contains([]string{"FROM", "JOIN", "UPDATE", "INTO"}, c.at(c.tableStart(i-2)-1)) {
			c.say("a table's alias with AS")
		}
	}
}

// namesView reports whether i is the alias of a query in parentheses that is read like a table.
func (c *checker) namesView(i int) bool {
	if c.at(i-1) != ")" || sqlWords[c.at(i)] {
		return false
	}
	for k := i - 2; k >= 0; k-- {
		if c.at(k) == "(" && c.tokens[k].depth == c.tokens[i].depth {
			return (c.at(k-1) == "FROM" || c.at(k-1) == "APPLY") && c.at(k+1) == "SELECT"
		}
	}
	return false
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

// isOperand reports whether i is a name, or what else has a value, and not a word of the language.
func (c *checker) isOperand(i int) bool {
	if i < 0 {
		return false
	}
	t := c.tokens[i]
	return t.kind == value || t.kind == number || t.kind == literal || t.text == ")" && t.kind == sign ||
		t.kind == word && !sqlWords[t.text] && !(c.isBlock() && blockWords[t.text])
}

// neighbors: two operands have something between them; only a table is followed by its alias.
func (c *checker) neighbors() {
	if c.at(0) == "CREATE" || c.at(0) == "DROP" {
		return
	}
	for i, t := range c.tokens {
		if !c.isOperand(i-1) || !c.isOperand(i) || t.text == ")" && t.kind == sign {
			continue
		}
		isType := c.follows(0, "DECLARE TYPE "+t.text) // of a variable before it
		if _, isTable := c.schema[c.at(i-1)]; !isTable && !isType && !c.namesView(i) || t.kind != word {
			c.say("nothing between %s and %s", c.tokens[i-1].text, t.text)
		}
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
