package oracle

import "slices"

// neverLocked are the clauses of a query that Oracle does not lock rows of.
var neverLocked = []string{
	"FETCH", "GROUP", "DISTINCT", "UNION", "INTERSECT", "MINUS", "COUNT", "MAX", "MIN", "ROWNUM",
}

// clauseOrders are pairs of clauses of which the first comes before the second.
var clauseOrders = [][2]string{
	{"FROM", "WHERE"},
	{"WHERE", "GROUP"},
	{"WHERE", "ORDER"},
	{"ORDER", "FETCH"},
	{"WHERE", "FETCH"},
	{"ORDER", "OFFSET"},
	{"ORDER", "FOR"},
	{"WHERE", "FOR"},
}

// isValue reports whether i, or the last token before it, is a bound value.
func (c *checker) isValue(i int) bool { return c.tokens[min(i, len(c.tokens)-1)].kind == value }

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
		if has["FOR"] > 0 {
			for _, w := range neverLocked {
				if has[w] > 0 {
					c.say("FOR UPDATE in a query with %s (ORA-02014)", w)
				}
			}
		}
		for _, order := range clauseOrders {
			if a, b := has[order[0]], has[order[1]]; a > b && b > 0 {
				c.say("%s behind %s", order[0], order[1])
			}
		}
	}
	c.rowLimits()
}

// rowLimits: what bounds or locks rows is of the forms that every version of Oracle takes, and nulls are not compared.
func (c *checker) rowLimits() {
	for i := range c.tokens {
		switch {
		case c.at(i) == "SKIP" && !c.follows(i-2, "FOR UPDATE SKIP LOCKED"):
			c.say("SKIP LOCKED without FOR UPDATE")
		case c.at(i) == "FETCH" && c.at(i+1) == "FIRST" && c.at(i+2) != "1" && !c.isValue(i+2),
			c.at(i) == "FETCH" && c.at(i+1) == "FIRST" && !c.follows(i+3, "ROWS ONLY"):
			c.say("FETCH FIRST is not of the form FETCH FIRST :value ROWS ONLY, or with 1 in its place")
		case c.at(i) == "OFFSET" && !(c.isValue(i+1) && c.follows(i+2, "ROWS FETCH NEXT 1 ROWS ONLY")):
			c.say("OFFSET is not of the form OFFSET :value ROWS FETCH NEXT 1 ROWS ONLY")
		case c.at(i) == "ROWNUM" &&
			!(c.at(i+1) == "<=" && c.isValue(i+2) && (c.at(i-1) == "AND" || c.at(i-1) == "WHERE")):
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
