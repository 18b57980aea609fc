package rules

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// local matches text that works on one machine only: a path of its own, a registry or mirror of packages. Each pattern
// has a text that it cannot match without, since a search for that takes a hundredth of the time.
var local = [][2]string{
	{"/work/", `(^|[^\w.*/}-])/work/`}, {"/root/", `(^|[^\w.*/}-])/root/`}, {"/home/", `(^|[^\w.*/}-])/home/[a-z]+/`},
	{".golang.org", `(proxy|sum)\.golang\.org`}, {"goproxy.", `goproxy\.(io|cn)`},
	{".debian.org", `(deb|ftp|security|snapshot)\.debian\.org`}, {"registry.", `registry\.(npmjs|yarnpkg)\.`},
	{"pypi.org", `pypi\.org`}, {"files.pythonhosted.", `files\.pythonhosted\.`},
}

func TestNoPathsOrHostsOfThisMachine(t *testing.T) {
	patterns := local
	for _, host := range registries() {
		patterns = append(patterns, [2]string{host, regexp.QuoteMeta(host)})
	}
	sources(t, func(file string, content []byte) {
		if file == "ci/rules/paths_test.go" {
			return
		}
		for _, p := range patterns {
			if !bytes.Contains(content, []byte(p[0])) {
				continue
			}
			for _, found := range regexp.MustCompile("(?m)"+p[1]).FindAllString(string(content), -1) {
				t.Errorf("%s: %q exists on this machine only; use a standard path or a variable", file, found)
			}
		}
	})
}

// registries are the hosts that this machine is set up to fetch packages from.
func registries() []string {
	urls := os.Getenv("GOPROXY")
	for _, command := range [][]string{
		{"go", "env", "GOPROXY"},
		{"apt-get", "indextargets", "--format", "$(REPO_URI)"},
	} {
		out, _ := exec.Command(command[0], command[1:]...).Output() // a machine without apt has no mirror of it
		urls += "\n" + string(out)
	}
	var hosts []string
	for _, m := range regexp.MustCompile(`[a-z]+://(?:[^/@\s]*@)?([^/:,|\s]+)`).FindAllStringSubmatch(urls, -1) {
		hosts = append(hosts, m[1])
	}
	return hosts
}
