package recipes

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
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

// split enqueues a task for each picture, and one that needs all of them, in the transaction that completes the album's
// own task: either all of it is done once, or nothing is.
func split(ctx context.Context, tx *sql.Tx, _ dbq.Task, a album) error {
	names, err := pictures(ctx, tx, a)
	if err != nil {
		return err
	}
	var steps []workflow.Step
	for _, name := range names {
		steps = append(steps, workflow.NewStep("picture "+name, resizePicture, picture{a.Name, name}))
	}
	steps = append(steps, workflow.NewStep("close", closeAlbum, a, workflow.Names(steps)...))
	_, err = workflow.EnqueueTx(ctx, tx, worker.Client(ctx), steps)
	return err
}

// resize does one part. Its result is the size of the thumbnail.
func resize(_ context.Context, _ dbq.Task, p picture) (bytes int, err error) {
	return len(p.Name), nil
}

// closed adds the results of the parts up.
func closed(ctx context.Context, t dbq.Task, a album) (total int, err error) {
	for s, err := range workflow.Needs(ctx, worker.Client(ctx), t.ID) {
		if err != nil {
			return 0, err
		}
		var bytes int
		if err := s.Decode(&bytes); err != nil {
			return 0, err
		}
		total += bytes
	}
	return total, nil
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
	c := open(ctx, "CREATE TABLE pictures (album TEXT, name TEXT, PRIMARY KEY (album, name))",
		"INSERT INTO pictures (album, name) VALUES ('summer', 'beach'), ('summer', 'boat'), ('summer', 'sun')")
	defer c.Close()
	for _, name := range []string{"summer", "empty"} {
		_, err := splitAlbum.Enqueue(ctx, c, album{name}, func(t *dbq.NewTask) { t.Reference = "split " + name })
		must(err)
	}

	mux := worker.NewMux()
	worker.HandleTx(mux, splitAlbum, split)
	worker.HandleResult(mux, resizePicture, resize)
	worker.HandleResult(mux, closeAlbum, func(ctx context.Context, t dbq.Task, a album) (int, error) {
		total, err := closed(ctx, t, a)
		fmt.Println(a.Name, total, "bytes")
		return total, err
	})
	workOn(ctx, c, "albums", mux)
	// Unordered output:
	// summer 12 bytes
	// empty 0 bytes
}
