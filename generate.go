package dbq

//go:generate go run ./internal/gen
