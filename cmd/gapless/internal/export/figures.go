package export

import (
	"time"

	"github.com/gapless-dev/gapless/loadgen"
	"github.com/gapless-dev/gapless/loadgen/history"
	"github.com/gapless-dev/gapless/loadgen/result"
)

// Latency is the account of latencies for a result; nil gives the zero one.
func Latency(l *loadgen.Latencies) result.Latency {
	if l == nil {
		return result.Latency{}
	}
	of := func(p loadgen.Phase) result.Figures { return figures(l, p) }
	return result.Latency{
		FirstEvent: of(loadgen.FirstEvent), EventGap: of(loadgen.EventGap), Completion: of(loadgen.Completion),
		StartDelay: of(loadgen.StartDelay), ResumeDetect: of(loadgen.ResumeDetect), ResumeBackoff: of(loadgen.ResumeBackoff),
		ResumeConnect: of(loadgen.ResumeConnect), ResumeFirstEvent: of(loadgen.ResumeFirstEvent), ResumeCaughtUp: of(loadgen.ResumeCaughtUp),
	}
}

func figures(l *loadgen.Latencies, p loadgen.Phase) result.Figures {
	n := l.Of(p).TotalCount()
	if n == 0 {
		return result.Figures{}
	}
	at := func(q float64) float64 { return l.Quantile(p, q).Seconds() }
	rank := func(k int64) float64 { return at(100 * float64(k) / float64(n)) }
	return result.Figures{
		Count: n, Mean: l.Mean(p).Seconds(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: at(100),
		P50Interval: result.Interval(n, 50, rank), P90Interval: result.Interval(n, 90, rank), P99Interval: result.Interval(n, 99, rank),
	}
}

// Finished gives the figures of a run that is over: those of its latencies, which may
// be nil, and of its result.
func Finished(l *loadgen.Latencies, r *result.Result) result.Source { return finished{l, r} }

type finished struct {
	l *loadgen.Latencies
	r *result.Result
}

func (f finished) Quantile(figure string, q float64) (float64, int64) {
	p, known := loadgen.PhaseNamed(figure)
	if f.l == nil || !known {
		return 0, 0
	}
	return f.l.Quantile(p, q).Seconds(), f.l.Of(p).TotalCount()
}

func (f finished) Mean(figure string) (float64, int64) {
	p, known := loadgen.PhaseNamed(figure)
	if f.l == nil || !known {
		return 0, 0
	}
	return f.l.Mean(p).Seconds(), f.l.Of(p).TotalCount()
}

func (f finished) Count(figure string) (int64, int64) { return f.r.Count(figure) }

// Going gives the figures of a run that goes on, which has so many planned arrivals.
// Late messages are known only to the judge, at the end.
func Going(l *loadgen.Live, planned int64) result.Source { return going{l, planned} }

type going struct {
	l       *loadgen.Live
	planned int64
}

func (g going) Quantile(figure string, q float64) (float64, int64) {
	return g.ask(figure, func(p loadgen.Phase) (time.Duration, int64) { return g.l.Quantile(p, q) })
}

func (g going) Mean(figure string) (float64, int64) { return g.ask(figure, g.l.Mean) }

func (g going) ask(figure string, what func(loadgen.Phase) (time.Duration, int64)) (float64, int64) {
	p, known := loadgen.PhaseNamed(figure)
	if !known {
		return 0, 0
	}
	d, n := what(p)
	return d.Seconds(), n
}

func (g going) Count(figure string) (int64, int64) {
	of := map[string]history.Outcome{
		"indeterminate": history.OutcomeIndeterminate, "not_sent": history.OutcomeNotSent, "refused": history.OutcomeRefused,
		"undecided": history.OutcomeUndecided, "failed": history.OutcomeFailed,
	}
	if o, known := of[figure]; known {
		return g.l.Outcomes()[o], g.planned
	}
	if figure == "dropped_arrivals" {
		return g.l.Progress().Dropped, g.planned
	}
	return 0, 0
}
