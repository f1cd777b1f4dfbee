package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that a run of the server table found.
type report struct {
	Date     time.Time         `json:"date"`
	Go       string            `json:"go"`
	System   string            `json:"system"`
	CPUs     int               `json:"cpus"`
	Versions map[string]string `json:"versions"`
	Sizes    sizes             `json:"sizes"`
	Seconds  float64           `json:"seconds"`
	Rows     []*row            `json:"rows"`
}

// row is one server.
type row struct {
	Server string            `json:"server"`
	Cells  map[string]*cells `json:"regimes"`
	kind   kind
}

// cells are the figures of one regime.
type cells struct {
	CPU     figure `json:"cpu_us"`          // per event; per resume in replay
	Wall    figure `json:"wall"`            // events a second; µs per resume in replay
	KiB     figure `json:"kib"`             // per idle stream
	Events  int    `json:"events"`          // that have come, in all rounds
	Missing int    `json:"events_missing"`  // that have not
	Again   int    `json:"events_repeated"` // that have come again, or behind a later one
}

// figure is what several rounds gave.
type figure struct {
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
	Rounds []float64 `json:"rounds"`
}

func (f *figure) take(v float64) {
	f.Rounds = append(f.Rounds, v)
	sorted := slices.Sorted(slices.Values(f.Rounds))
	f.Least, f.Most = sorted[0], sorted[len(sorted)-1]
	f.Median = (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// spread is how far the rounds lie apart, as a share of the median.
func (f *figure) spread() float64 {
	if f.Median == 0 {
		return 0
	}
	return (f.Most - f.Least) / f.Median
}

func newReport(z sizes) *report {
	r := &report{
		Date: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPUs: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Versions: make(map[string]string), Sizes: z,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if strings.HasSuffix(m.Path, "/go-sdk") || strings.HasSuffix(m.Path, "/mcp-go") {
				r.Versions[m.Path] = m.Version
			}
		}
	}
	return r
}

func (r *report) add(k kind) {
	r.Rows = append(r.Rows, &row{Server: k.name, kind: k, Cells: make(map[string]*cells)})
}

func (w *row) take(regime string, s sample) {
	c := w.Cells[regime]
	if c == nil {
		c = new(cells)
		w.Cells[regime] = c
	}
	c.CPU.take(s.CPU)
	c.Wall.take(s.Wall)
	c.KiB.take(s.KiB)
	c.Events += s.Events
	c.Missing += s.Missing
	c.Again += s.Again
}

// row returns a server of the report, nil if it was not measured.
func (r *report) row(name string) *row {
	for _, w := range r.Rows {
		if w.Server == name {
			return w
		}
	}
	return nil
}

// cpu returns the CPU of a server per event of a regime, 0 if it was not measured.
func (r *report) cpu(name, regime string) float64 {
	if w := r.row(name); w != nil && w.Cells[regime] != nil {
		return w.Cells[regime].CPU.Median
	}
	return 0
}

func (r *report) print(out io.Writer) error {
	z := r.Sizes
	var b strings.Builder
	fmt.Fprintf(&b, "gapless bench server · %s · %s · %s, %d CPUs · %.0f s\n", r.Date.Format("2006-01-02"), r.Go, r.System, r.CPUs, r.Seconds)
	for _, path := range []string{"github.com/modelcontextprotocol/go-sdk", "github.com/mark3labs/mcp-go"} {
		fmt.Fprintf(&b, "%s %s\n", path, r.Versions[path])
	}
	fmt.Fprintf(&b, `
Medians of %d rounds in turns, ± half of what lies between the lowest and the highest. CPU is the server's, in µs.
burst   %d streams × %d events of %d bytes, as fast as they go
live    %d streams × %d events a second
idle    %d open streams that wait: resident memory of the server, for each
replay  a resume of %d events, until all have come

`, z.Rounds, z.BurstStreams, z.BurstEvents, messageBytes, z.LiveStreams, z.LiveRate, z.IdleStreams, z.ReplayEvents)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tburst\t\t\tlive\t\tidle\treplay\t\tevents\t")
	fmt.Fprintln(t, "\tCPU/event\t\tx raw\tCPU/event\tx raw\tKiB\tms\tCPU\tmissing\t")
	for _, w := range r.Rows {
		burst, live, idle, replay := w.Cells["burst"], w.Cells["live"], w.Cells["idle"], w.Cells["replay"]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", w.Server,
			burst.number("%.2f", cpuOf), burst.apart(), ratio(cpuOf(burst), r.cpu(rawEach, "burst")),
			live.number("%.1f", cpuOf), ratio(cpuOf(live), r.cpu(rawEach, "live")),
			idle.number("%.1f", func(c *cells) float64 { return c.KiB.Median }),
			replay.number("%.2f", func(c *cells) float64 { return c.Wall.Median / 1000 }),
			replay.number("%.0f", cpuOf), w.missing())
	}
	return t.Flush()
}

func cpuOf(c *cells) float64 {
	if c == nil {
		return 0
	}
	return c.CPU.Median
}

func (c *cells) number(format string, of func(*cells) float64) string {
	if c == nil {
		return "-"
	}
	return fmt.Sprintf(format, of(c))
}

// apart is the spread of the CPU figure.
func (c *cells) apart() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("±%.0f%%", 50*c.CPU.spread())
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// missing says how many events have not come, of how many, and how many came again.
func (w *row) missing() string {
	missing, again, all := 0, 0, 0
	for _, c := range w.Cells {
		missing += c.Missing
		again += c.Again
		all += c.Events - c.Again + c.Missing
	}
	text := fmt.Sprint(missing)
	if missing > 0 {
		text += fmt.Sprintf(" of %d", all)
	}
	if again > 0 {
		text += fmt.Sprintf(", %d again", again)
	}
	return text
}

// Limits of [report.check].
const (
	maxTimesRaw   = 2.0 // CPU per event in a burst, of raw writes
	minTimesGoSDK = 3.0 // events per CPU second in a burst, of the go-sdk server
)

// check compares what gapless takes, as it is configured by default, with what the others
// took in the same run. No event of it may be missing in any configuration.
func (r *report) check() error {
	cost, raw, sdk := r.cpu(ours, "burst"), r.cpu(rawEach, "burst"), r.cpu(goSDKStore, "burst")
	var errs []error
	if cost == 0 {
		errs = append(errs, errors.New("gapless was not measured"))
	}
	if cost > maxTimesRaw*raw {
		errs = append(errs, fmt.Errorf("%.2f µs per event in a burst are more than %g × %.2f, a raw write", cost, maxTimesRaw, raw))
	}
	if cost*minTimesGoSDK > sdk {
		errs = append(errs, fmt.Errorf("%.2f µs per event in a burst are more than 1/%g of %.2f, what go-sdk takes", cost, minTimesGoSDK, sdk))
	}
	for _, w := range r.Rows {
		for name, c := range w.Cells {
			if strings.HasPrefix(w.Server, ours) && c.Missing+c.Again > 0 {
				errs = append(errs, fmt.Errorf("%s, %s: %d events missing, %d repeated", w.Server, name, c.Missing, c.Again))
			}
		}
	}
	return errors.Join(errs...)
}
