package main

import (
	"slices"
	"strings"
)

// place is a queue of a database of the server.
type place struct{ database, queue string }

// forwardingLoop returns a loop in which bridges forward tasks, such as "a/q to b/q to a/q", or "".
func forwardingLoop(configs []bridgeConfig) string {
	next := map[place][]place{}
	for _, c := range configs {
		if c.Forward != nil {
			from := place{c.Database, c.Queue}
			next[from] = append(next[from], place{c.Forward.Database, c.Forward.Queue})
		}
	}
	done := map[place]bool{}
	var follow func(path []place) []place
	follow = func(path []place) []place {
		last := path[len(path)-1]
		if i := slices.Index(path[:len(path)-1], last); i >= 0 {
			return path[i:]
		}
		if done[last] {
			return nil
		}
		for _, to := range next[last] {
			if loop := follow(append(slices.Clone(path), to)); loop != nil {
				return loop
			}
		}
		done[last] = true
		return nil
	}
	for _, c := range configs {
		if loop := follow([]place{{c.Database, c.Queue}}); loop != nil {
			var names []string
			for _, p := range loop {
				names = append(names, p.database+"/"+p.queue)
			}
			return strings.Join(names, " to ")
		}
	}
	return ""
}
