// Package recipes has the code of docs/recipes.md: one recipe for each file, with an example that runs it on SQLite.
package recipes
