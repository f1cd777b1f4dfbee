package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/export"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/judge"
	"github.com/gapless-dev/gapless/loadgen/result"
	"github.com/gapless-dev/gapless/profiles"
)

// resultFile is the name of the result in a saved run.
const resultFile = "result.json"

// An archive writes down what the judge is told, stream by stream, in the order in
// which the judge closes them. It belongs to one goroutine.
type archive struct {
	dir    string
	pool   *history.Pool
	writer *history.Writer
	// records were taken down, dropped were not; the writer counts both too.
	records, dropped int64
}

// extra is what a saved run needs beside its profile's text.
type extra struct {
	ProfileName string `json:"profile_name"`
}

// save begins the archive of the run; without a directory there is none.
func (x *experiment) save(t trial, j *judge.Judge) (*archive, error) {
	if x.c.Save == "" {
		return nil, nil
	}
	kept := x.c.Profile
	kept.Target = Withhold(kept.Target)
	text, err := kept.YAML()
	if err != nil {
		return nil, err
	}
	header := history.Header{Version: x.c.Version, Run: x.c.Name, Seed: x.c.Seed, Profile: string(text)}
	if header.Offer, err = json.Marshal(t.offer); err != nil {
		return nil, err
	}
	if header.Setup, err = json.Marshal(t.setup); err != nil {
		return nil, err
	}
	if header.Extra, err = json.Marshal(extra{ProfileName: x.c.Profile.Name}); err != nil {
		return nil, err
	}
	w, err := history.Create(x.c.Save, header, history.Options{MaxBytes: int64(x.c.Profile.History.Bytes), Snapshot: j.Snapshot})
	if err != nil {
		return nil, fmt.Errorf("save: %w", err)
	}
	return &archive{dir: x.c.Save, pool: history.NewPool(history.PoolConfig{}), writer: w}, nil
}

// open returns the recorder of a stream; nil, which records nothing, without an
// archive.
func (a *archive) open(kind history.StreamKind, session, stream uint32) *history.Recorder {
	if a == nil {
		return nil
	}
	return a.pool.Open(kind, session, stream)
}

// put writes a stream that the judge has closed.
func (a *archive) put(r *history.Recorder, damaged bool) {
	if a != nil {
		a.records, a.dropped = a.records+r.Records(), a.dropped+r.Dropped()
		_ = a.writer.Put(r, damaged) // its first error is final and surfaces at Close
	}
}

// finish ends the archive with what the judge cannot see in records, and the result.
func (a *archive) finish(tail judge.Tail, r *result.Result) error {
	text, err := json.Marshal(tail)
	if err != nil {
		return err
	}
	r.History = result.History{Dir: a.dir, Records: a.records, Dropped: a.dropped}
	if err := a.writer.Close(text, 0); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return WriteResult(filepath.Join(a.dir, resultFile), r)
}

// WriteResult writes the result for its owner alone: evidence is about somebody's
// server.
func WriteResult(path string, r *result.Result) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(r.Encode(f), f.Close())
}

// ReadResult reads the result of a saved run.
func ReadResult(dir string) (*result.Result, error) {
	text, err := os.ReadFile(filepath.Join(dir, resultFile))
	if err != nil {
		return nil, err
	}
	r, err := result.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, resultFile), err)
	}
	return r, nil
}

// Judge judges a saved run again, from its records alone. Figures that are not the
// judge's (latency, the generator's cost) are taken from the saved result where there
// is one. A history that is cut short or damaged is judged as far as it goes: it
// never holds, and the result says where it breaks.
func Judge(dir string) (*result.Result, error) {
	in, err := history.Open(dir)
	if err != nil {
		return judgeNothing(dir, err)
	}
	defer in.Close()
	var setup judge.Setup
	if err := json.Unmarshal(in.Header().Setup, &setup); err != nil {
		return judgeNothing(dir, fmt.Errorf("header of the history: %w", err))
	}
	j := judge.New(setup)
	if base := in.Base(); base != nil {
		if j, err = judge.Restore(setup, base); err != nil {
			return judgeNothing(dir, &history.CorruptError{File: dir, What: err.Error()})
		}
	}
	broken := rejudge(in, j)
	var tail judge.Tail
	if broken == nil {
		trailer := in.Trailer()
		broken = json.Unmarshal(trailer.Tail, &tail)
		tail.RecordsDropped += trailer.Dropped
	}
	if broken != nil {
		tail = judge.Tail{} // no trailer: nothing that ends before its end can hold
	}
	r, measured := saved(dir, in.Header())
	v := j.Finish(tail)
	fill(r, v)
	if !measured {
		r.Thresholds = unmeasured(in.Header(), r)
	}
	r.Timelines = timelines(v.Guilty, calledIn(in.Header()), func(stream uint32) string { return repeatStream(dir, stream) })
	if broken != nil {
		damaged(r, broken)
	}
	return r, nil
}

// damaged says first of all that the history is not whole; what is violated stays so.
func damaged(r *result.Result, broken error) {
	if r.Verdict == result.Inconclusive {
		r.Sentence = "The history is damaged, so this run proves nothing."
	}
	r.Why = append([]string{broken.Error()}, r.Why...)
}

// judgeNothing is the result of a history that cannot be read at all. What is no
// history in the first place is an error of the caller.
func judgeNothing(dir string, err error) (*result.Result, error) {
	var corrupt *history.CorruptError
	if !errors.As(err, &corrupt) {
		return nil, err
	}
	r, _ := saved(dir, history.Header{})
	fill(r, judge.New(judge.Setup{}).Finish(judge.Tail{}))
	r.Why = nil
	damaged(r, err)
	return r, nil
}

// saved is the result of the run without its verdict, and whether its figures are there.
func saved(dir string, h history.Header) (r *result.Result, measured bool) {
	r, err := ReadResult(dir)
	if err != nil {
		r = &result.Result{Gapless: result.Format, Run: result.Run{ID: h.Run, Seed: h.Seed, Version: h.Version}}
		if !errors.Is(err, os.ErrNotExist) {
			r.Notes = []string{"figures of the run are missing: " + err.Error()}
		}
	}
	r.Run.Command = "gapless judge " + dir
	r.History.Dir = dir
	return r, err == nil
}

// unmeasured are the thresholds of a run whose figures are gone: a history holds no
// latencies, and a limit that cannot be looked at is not kept. Those on counts are looked
// at in what was judged again.
func unmeasured(h history.Header, r *result.Result) []result.Threshold {
	p, err := profiles.Parse("profile", []byte(h.Profile))
	if err != nil {
		return nil
	}
	all, err := limits(p)
	if err != nil {
		return nil
	}
	return result.Evaluate(all, export.Finished(nil, r))
}

// rejudge feeds every stream of the history to the judge.
func rejudge(in *history.Reader, j *judge.Judge) error {
	for {
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		feed(j, b)
	}
}

// feed gives the judge a stream of the history, from its first record to its last.
func feed(j *judge.Judge, b history.Block) *judge.Stream {
	s := j.Open(b.Session, b.Stream, b.Kind)
	for r := range b.Records() {
		s.Observe(r)
	}
	s.Close()
	return s
}

func repeatStream(dir string, stream uint32) string {
	return fmt.Sprintf("gapless run --from %s --stream %d", dir, stream)
}

// calledIn describes the calls of a saved run; with "" when its profile is of another
// version.
func calledIn(h history.Header) describer {
	p, err := profiles.Parse("profile", []byte(h.Profile))
	if err != nil {
		return func(uint32) string { return "" }
	}
	return newDescriber(p, h.Seed)
}

// A NoStreamError says that a saved run has no such stream.
type NoStreamError struct {
	Dir    string
	Stream uint32
}

func (e *NoStreamError) Error() string {
	return fmt.Sprintf("no stream %d in %s; streams that were settled long ago and had no finding may have been dropped", e.Stream, e.Dir)
}

// Story is the timeline of one stream of a saved run, damaged or not.
func Story(dir string, stream uint32) (*result.Timeline, error) {
	in, err := history.Open(dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var setup judge.Setup
	if err := json.Unmarshal(in.Header().Setup, &setup); err != nil {
		return nil, fmt.Errorf("header of the history: %w", err)
	}
	for {
		b, err := in.NextAny()
		if errors.Is(err, io.EOF) {
			return nil, &NoStreamError{Dir: dir, Stream: stream}
		}
		if err != nil {
			return nil, err
		}
		if b.Stream != stream {
			continue
		}
		g := feed(judge.New(setup), b).Story()
		t := timeline(&g, calledIn(in.Header())(stream), repeatStream(dir, stream))
		return &t, nil
	}
}

// A Recorded run is what --from repeats: the profile, the seed and what the target
// offered, so that the plans come out the same.
type Recorded struct {
	Profile profiles.Profile
	Seed    uint64
	Offer   Offer
}

// Load reads the header of a saved run.
func Load(dir string) (*Recorded, error) {
	in, err := history.Open(dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	h := in.Header()
	rec := &Recorded{Seed: h.Seed}
	if rec.Profile, err = profiles.Parse(filepath.Join(dir, "profile"), []byte(h.Profile)); err != nil {
		return nil, err
	}
	var more extra
	if err := errors.Join(json.Unmarshal(h.Offer, &rec.Offer), json.Unmarshal(h.Extra, &more)); err != nil {
		return nil, fmt.Errorf("%s: header of the history: %w", dir, err)
	}
	rec.Profile.Name = more.ProfileName
	return rec, nil
}
