package main

import (
	"log"
	"log/slog"
	"os"
)

func Example() {
	directory, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	if err := os.Chdir(directory); err != nil {
		log.Fatal(err)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))

	main()
	// Output: sending mail to ann@example.com
}
