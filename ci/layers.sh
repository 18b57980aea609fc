#!/bin/bash
# Checks the imports of every package against ci/layers.txt; prints each one that is not allowed.
# Direct imports are enough: what they import is checked in its turn. What the row "tests" names may be imported by tests alone;
# the row "never" counts for tests too.
set -euo pipefail
cd "$(dirname "$0")/.."

go list -f '{{.ImportPath}}|{{join .Imports " "}}|{{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
  awk -F '|' -v module="$(go list -m)" '
    # fits: name is pattern, or below it when the pattern ends in /... (always so for modules of others).
    function fits(name, pattern) {
      if (pattern == "*" || name == pattern) return 1
      if (sub(/\/\.\.\.$/, "", pattern) && name == pattern) return 1
      if (pattern ~ /^[^\/]+\.[^\/]+\// || wide) return index(name, pattern "/") == 1
      return 0
    }
    function any(name, list,    i, n, p) {
      n = split(list, p, " ")
      for (i = 1; i <= n; i++) {
        wide = p[i] ~ /\/\.\.\.$/
        if (fits(name, p[i])) return 1
      }
      return 0
    }
    # folder: a path of this module as layers.txt writes it; others stay as they are.
    function folder(path) {
      if (path == module) return "."
      if (index(path, module "/") == 1) return substr(path, length(module) + 2)
      return path
    }
    function complain(what) { print what; bad = 1 }

    FILENAME != "-" { # layers.txt
      line = $0
      if (line ~ /^#/ || line !~ /:/) next
      split(line, half, ":")
      gsub(/ /, "", half[1])
      gsub(/\|/, " ", half[2])
      if (half[1] == "never") never = half[2]
      else if (half[1] == "tests") tests = half[2]
      else { row[++rows] = half[1]; may[rows] = half[2] }
      next
    }
    {
      from = folder($1)
      for (r = 1; r <= rows && !any(from, row[r]); r++);
      if (r > rows) { complain(from ": no row in ci/layers.txt"); next }
      n = split($2, imports, " ")
      for (i = 1; i <= n; i++) {
        to = folder(imports[i])
        if (to == imports[i] && to !~ /^[^\/]+\./) continue # the standard library
        if (!any(to, may[r])) complain(from " imports " to)
        else if (any(to, tests)) complain(from " imports " to ", which is for tests alone")
      }
      n = split($2 " " $3, imports, " ")
      for (i = 1; i <= n; i++) {
        to = folder(imports[i])
        if (may[r] !~ /\*/ && to != from && any(to, never)) complain(from " or its tests import " to)
      }
    }
    END { exit bad }
  ' ci/layers.txt -
