package profiles

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Built tells whether this version can do what the profile asks for. A profile
// may be valid and ask for more: then the error names each such wish, so that
// nothing is left out in silence.
func (p Profile) Built() error {
	var all []error
	for _, wish := range p.wishes() {
		if wish.asked {
			all = append(all, fmt.Errorf("not built yet: %s", wish.what))
		}
	}
	for _, f := range p.Faults.Mix {
		if !slices.Contains(builtKinds(), f.Kind) {
			all = append(all, fmt.Errorf("not built yet: fault kind %s (built: %s)", f.Kind, oneOf(builtKinds())))
		}
		for _, place := range f.At {
			if !slices.Contains(builtPlaces(), place) {
				all = append(all, fmt.Errorf("not built yet: place %s (built: %s)", place, oneOf(builtPlaces())))
			}
		}
	}
	return errors.Join(all...)
}

func builtKinds() []string { return []string{"rst", "fin", "chunk-end", "none"} }

func builtPlaces() []string {
	return []string{
		"after-priming", "between-events", "mid-event", "before-response", "mid-response", "after-response",
		"resume-before-headers", "resume-before-first-event", "mid-replay", "at-live",
	}
}

func builtDefects() []string { return []string{"S03", "S05"} }

type wish struct {
	asked bool
	what  string
}

func (p Profile) wishes() []wish {
	return slices.Concat(p.targetWishes(), p.loadWishes(), p.judgeWishes())
}

func (p Profile) targetWishes() []wish {
	t, s := p.Target, p.Server
	return []wish{
		{t.Dialect != "resume", "dialect " + t.Dialect + " (built: resume)"},
		{t.Transport != "http", "transport " + t.Transport + " (built: http)"},
		{t.Dialect == "resume" && t.Protocol == "2025-03-26", "protocol 2025-03-26 (built: 2025-06-18 and 2025-11-25)"},
		{t.Exec != "", "target.exec: start the server yourself and give its url"},
		{t.URL != "" && !strings.HasPrefix(strings.ToLower(t.URL), "http://"), "urls other than http://"},
		{t.Token.Env != "" || t.Token.File != "" || len(t.Token.Command) > 0, "target.token: give the header Authorization in target.headers"},
		{t.TLS != TLS{}, "target.tls"},
		{t.HTTPProxy != "env" && t.HTTPProxy != "none", "target.http_proxy"},
		{t.MaxRate > 0, "target.max_rate"},
		{t.PID > 0, "target.pid"},
		{s.Store != "memory", "store " + s.Store + " (built: memory)"},
		{s.Delivery != "follow", "delivery " + s.Delivery + " (built: follow)"},
		{s.Lock != "stream", "lock " + s.Lock + " (built: stream)"},
		{s.Defect != "" && !builtDefect(s.Defect), "defect " + s.Defect + " (built: " + oneOf(builtDefects()) + ")"},
	}
}

// builtDefect looks at the code alone: its variants and settings are the
// reference server's to judge.
func builtDefect(defect string) bool {
	code, _, _ := strings.Cut(defect, ",")
	return slices.ContainsFunc(builtDefects(), func(b string) bool {
		return strings.EqualFold(strings.TrimRight(code, "abcdefgh"), b)
	})
}

func (p Profile) loadWishes() []wish {
	l, pointers := p.Load, DefaultCall().Expect
	wishes := []wish{
		{l.Rate > 0 || l.Duration > 0, "the open model (load.rate)"},
		{len(l.Stages) > 0, "the open model (load.stages)"},
		{l.GetStreams > 0, "standalone GET streams (load.get_streams)"},
		{len(p.Calls) > 1, "several calls drawn by weight"},
		{p.Emit.PollingCloses > 0, "polling closes (emit.polling_closes)"},
	}
	for _, c := range p.Calls {
		other := c.Expect.Sequence != pointers.Sequence || c.Expect.Total != pointers.Total
		wishes = append(wishes,
			wish{other, "numbering at other places (calls.expect.sequence, calls.expect.total)"},
			wish{c.Expect.Digest != "", "digests (calls.expect.digest)"})
	}
	return wishes
}

func (p Profile) judgeWishes() []wish {
	j, f := p.Judge, p.Faults
	return []wish{
		{f.Seat != "client", "seat " + f.Seat + " (built: client)"},
		{f.Start > 0 || f.Stop > 0, "a window for the faults (faults.start, faults.stop)"},
		{j.Contract != "exactly-once", "contract " + j.Contract + " (built: exactly-once)"},
		{j.Oracle == "twin" || j.Oracle == "wire", "oracle " + j.Oracle + " (built: auto, ledger and numbered)"},
		{len(j.Ignore) > 0, "judge.ignore"},
		{p.Reach.Storms > 0, "storms (reach.storms)"},
		{len(p.Thresholds) > 0, "thresholds"},
	}
}
