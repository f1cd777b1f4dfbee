// Package export writes what a run measures in the formats of other load testers, while
// it goes on: k6's JSON points and vegeta's results.
//
//	loadgen ──record──► track, one per stream ──settled──► sink: k6, vegeta ──► file
//
// A track belongs to the goroutine of its stream and takes no lock. Only when a stream
// has settled, or has much to write, does it wait for the file. Control calls and the
// canary are not exported. Memory is bounded: a track keeps a few numbers and at most
// some kilobytes that are about to be written.
//
// The package also gives the figures of a run, finished or not, to the limits on them.
package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// A Run says what stands in every point of the run.
type Run struct {
	// Profile names the run: k6's scenario and vegeta's attack.
	Profile string
	// URL of the target as it stands in reports, without secrets.
	URL string
	// Calls names the calls by Arrival.Call; one that is not named is "call".
	Calls []string
	// Started is the instant that all times of records count from.
	Started time.Time
}

func (r Run) call(n int) string {
	if 0 <= n && n < len(r.Calls) {
		return r.Calls[n]
	}
	return "call"
}

// An Exporter writes the streams of one run. It is a loadgen.Observer. Add all sinks
// before the run begins.
type Exporter struct {
	run    Run
	k6     *k6
	vegeta *vegetaSink
}

// New returns an exporter that writes nothing yet.
func New(run Run) *Exporter { return &Exporter{run: run} }

// K6 also writes k6's JSON points to w.
func (e *Exporter) K6(w io.Writer) { e.k6 = newK6(w, e.run) }

// Vegeta also writes vegeta's results to w.
func (e *Exporter) Vegeta(w io.Writer) { e.vegeta = newVegeta(w, e.run) }

// Open implements loadgen.Observer.
func (e *Exporter) Open(a loadgen.Arrival) loadgen.StreamObserver {
	if a.Kind != history.StreamLoad && a.Kind != history.StreamGet {
		return nobody{}
	}
	return &track{e: e, of: a}
}

// Close writes what only the result tells, if there is one, and everything that still
// waits. Its error is the first of each file, however long ago it happened.
func (e *Exporter) Close(r *result.Result) error {
	var k, v error
	if e.k6 != nil {
		k = e.k6.finish(r)
	}
	if e.vegeta != nil {
		v = e.vegeta.out.close()
	}
	return errors.Join(k, v)
}

// nobody looks away.
type nobody struct{}

func (nobody) Observe(*history.Record) {}

// A file is what several streams write to. Its buffer keeps the first error and writes
// nothing after it: half a line would spoil the next one.
type file struct {
	what string
	mu   sync.Mutex
	buf  *bufio.Writer
}

func newFile(what string, w io.Writer) *file {
	return &file{what: what, buf: bufio.NewWriterSize(w, 64<<10)}
}

// Write implements io.Writer for whole lines or records.
func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf.Write(p)
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.buf.Flush(); err != nil {
		return fmt.Errorf("-o %s: the file is not whole: %w", f.what, err)
	}
	return nil
}
