package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The elements of JUnit's XML that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Errors     int             `xml:"errors,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"` // strategy.group
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit XML, for CI systems: a test suite for each strategy, with the product,
// version and so on as its properties. A broken law is a failure whose message is the law.
func (r Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{Name: "dbq conformance: " + r.Product + " " + r.Version, Tests: len(r.Results),
		Failures: r.Count(Failed),
		Skipped:  r.Count(Skipped), Time: junitTime(r.seconds())}
	for _, s := range r.Strategies {
		part := r.Of(s)
		suite := junitSuite{Name: string(s), Tests: len(part.Results), Failures: part.Count(Failed),
			Skipped: part.Count(Skipped),
			Time:    junitTime(part.seconds()), Timestamp: r.Started.Format("2006-01-02T15:04:05"),
			Properties: []junitProperty{
				{"product", r.Product}, {"version", r.Version}, {"dialect", r.Dialect}, {"dbq", r.DBQ}, {"strategy", string(s)},
				{"seed", fmt.Sprint(r.Seed)}, {"load", fmt.Sprint(r.Load)}, {"conflicts retried", fmt.Sprint(part.Conflicts())},
			}}
		for _, res := range part.Results {
			c := junitCase{Class: string(s) + "." + res.Case.Group, Name: res.Case.Name, Time: junitTime(res.Duration.Seconds())}
			switch res.Status() {
			case Failed:
				c.Failure = &junitMessage{"broken law: " + res.Case.Law, strings.Join(res.Failures, "\n")}
			case Skipped:
				c.Skipped = &junitMessage{Message: res.Skipped}
			}
			suite.Cases = append(suite.Cases, c)
		}
		all.Suites = append(all.Suites, suite)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}

func junitTime(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }
