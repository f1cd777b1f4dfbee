package history_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gapless-dev/gapless/loadgen/history"
)

// A stream is taken down while it runs, and written when it has been judged. Whoever
// reads it sees every record again, or an error that names the place.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "history")

	w, err := history.Create(dir, history.Header{Run: "1a2b3c4d", Seed: 1}, history.Options{})
	if err != nil {
		panic(err)
	}
	pool := history.NewPool(history.PoolConfig{})
	stream := pool.Open(history.StreamLoad, 1, 1)
	stream.Record(&history.Record{Kind: history.KindAttempt, Session: 1, Stream: 1, Link: 1})
	stream.Record(&history.Record{Kind: history.KindEnd, Session: 1, Stream: 1, Link: 1, End: history.EndReset})
	stream.Record(&history.Record{Kind: history.KindSettled, Session: 1, Stream: 1, Outcome: history.OutcomeFailed})
	const damaged = true
	w.Put(stream, damaged) // an error is final: Close returns it too
	if err := w.Close(nil, 0); err != nil {
		panic(err)
	}

	r, err := history.Open(dir)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for {
		block, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err)
		}
		for record := range block.Records() {
			fmt.Println(block.Stream, record.Kind)
		}
	}
	fmt.Println(r.Trailer().Records, "records,", r.Trailer().Dropped, "dropped")
	// Output:
	// 1 1
	// 1 5
	// 1 6
	// 3 records, 0 dropped
}
