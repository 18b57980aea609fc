package main

import (
	"log"
	"log/slog"
	"os"
)

func Example() {
	folder, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := os.Chdir(folder); err != nil {
		log.Fatal(err)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))

	main()
	// Output: sending mail to ann@example.com
}
