package recipes

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

type (
	album   struct{ Name string }
	picture struct{ Album, Name string }
)

var (
	splitAlbum    = dbq.Kind[album]{Name: "split-album", Queue: "albums"}
	resizePicture = dbq.Kind[picture]{Name: "resize-picture", Queue: "albums"}
	closeAlbum    = dbq.Kind[album]{Name: "close-album", Queue: "albums"}
)

// split enqueues a task for each picture and stores how many are open, in the transaction that completes the album's
// own task: either all of it is done once, or nothing is.
func split(c *dbq.Client) func(ctx context.Context, tx *sql.Tx, t dbq.Task, a album) error {
	return func(ctx context.Context, tx *sql.Tx, _ dbq.Task, a album) error {
		names, err := pictures(ctx, tx, a)
		if err != nil {
			return err
		}
		var parts []picture
		for _, name := range names {
			parts = append(parts, picture{a.Name, name})
		}
		const count = "UPDATE albums SET open = ? WHERE name = ?"
		if _, err := tx.ExecContext(ctx, count, len(parts), a.Name); err != nil {
			return err
		}
		if len(parts) == 0 {
			_, err := closeAlbum.EnqueueTx(ctx, tx, c, a)
			return err
		}
		_, err = resizePicture.EnqueueManyTx(ctx, tx, c, parts)
		return err
	}
}

// resize does one part. The part that finds no other one open enqueues the task that gathers the results.
func resize(c *dbq.Client) func(ctx context.Context, tx *sql.Tx, t dbq.Task, p picture) error {
	return func(ctx context.Context, tx *sql.Tx, _ dbq.Task, p picture) error {
		const store = "UPDATE pictures SET thumbnail = upper(name) WHERE album = ? AND name = ?"
		if _, err := tx.ExecContext(ctx, store, p.Album, p.Name); err != nil {
			return err
		}
		// This statement locks the album's row until the commit, so run it last: parts commit one after the other.
		const count = "UPDATE albums SET open = open - 1 WHERE name = ?"
		if _, err := tx.ExecContext(ctx, count, p.Album); err != nil {
			return err
		}
		var open int
		const read = "SELECT open FROM albums WHERE name = ?"
		if err := tx.QueryRowContext(ctx, read, p.Album).Scan(&open); err != nil || open > 0 {
			return err
		}
		_, err := closeAlbum.EnqueueTx(ctx, tx, c, album{p.Album})
		return err
	}
}

func pictures(ctx context.Context, tx *sql.Tx, a album) ([]string, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM pictures WHERE album = ? ORDER BY name", a.Name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func Example_fanOutAndGather() {
	ctx := context.Background()
	c := open(ctx, "CREATE TABLE albums (name TEXT PRIMARY KEY, open INTEGER)",
		"CREATE TABLE pictures (album TEXT, name TEXT, thumbnail TEXT, PRIMARY KEY (album, name))",
		"INSERT INTO albums (name) VALUES ('summer'), ('empty')",
		"INSERT INTO pictures (album, name) VALUES ('summer', 'beach'), ('summer', 'boat'), ('summer', 'sun')")
	defer c.Close()
	for _, name := range []string{"summer", "empty"} {
		_, err := splitAlbum.Enqueue(ctx, c, album{name}, func(t *dbq.NewTask) { t.Reference = "split " + name })
		must(err)
	}

	mux := worker.NewMux()
	worker.HandleTx(mux, splitAlbum, split(c))
	worker.HandleTx(mux, resizePicture, resize(c))
	closed := make(chan string, 10)
	worker.HandleTx(mux, closeAlbum, func(ctx context.Context, tx *sql.Tx, _ dbq.Task, a album) error {
		var n int
		const count = "SELECT count(thumbnail) FROM pictures WHERE album = ?"
		if err := tx.QueryRowContext(ctx, count, a.Name).Scan(&n); err != nil {
			return err
		}
		closed <- fmt.Sprintf("%s has %d thumbnails", a.Name, n)
		return nil
	})
	work(ctx, c, "albums", mux)
	close(closed)
	for text := range closed {
		fmt.Println(text)
	}
	// Unordered output:
	// summer has 3 thumbnails
	// empty has 0 thumbnails
}
