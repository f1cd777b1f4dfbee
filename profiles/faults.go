package profiles

import (
	"encoding"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (p Profile) checkFaults(f *findings) {
	fs := p.Faults
	f.word("faults.seat", fs.Seat, seats())
	if fs.Stop > 0 && fs.Stop <= fs.Start {
		f.add("faults.stop", "stop %v is not after start %v", fs.Stop, fs.Start)
	}
	for i, item := range fs.Mix {
		item.check(fmt.Sprintf("faults.mix[%d]", i), f)
		if item.Kind == "none" && len(fs.Mix) > 1 {
			f.add(fmt.Sprintf("faults.mix[%d]", i), "kind none beside others; leave it out, or leave them out")
		}
	}
	for i, item := range fs.Mix {
		for k, place := range item.At {
			if place == "get-stream" && p.Load.GetStreams == 0 && p.Target.Dialect != "umcp" {
				f.add(fmt.Sprintf("faults.mix[%d].at[%d]", i, k), "place get-stream without standalone GET streams; did you mean \"load: {get_streams: 1}\" beside it?")
			}
		}
		if p.Reference() || !strings.HasPrefix(item.Kind, "server-") && item.Kind != "store-fault" {
			continue
		}
		f.add(fmt.Sprintf("faults.mix[%d].kind", i), "kind %s hurts the reference server from inside; it cannot be used with target.url or target.exec", item.Kind)
	}
}

func (x Fault) check(path string, f *findings) {
	f.word(path+".kind", x.Kind, kinds())
	if !slices.Contains(kinds(), x.Kind) {
		return
	}
	for i, place := range x.At {
		at := fmt.Sprintf("%s.at[%d]", path, i)
		f.word(at, place, places())
		if slices.Index(x.At, place) < i {
			f.add(at, "place %s is listed twice", quote(place))
		}
	}
	x.checkPace(path, f)
	for _, only := range []struct {
		field string
		set   bool
		kinds []string
	}{
		{"for", x.For > 0, []string{"blackhole", "stall", "delay", "throttle", "slice", "refuse", "status", "storm", "server-crash", "server-drain", "store-fault", "noisy-neighbour"}},
		{"by", x.By > 0, []string{"delay"}},
		{"rate", x.Rate > 0, []string{"throttle"}},
		{"code", x.Code != DefaultFault().Code, []string{"status"}},
		{"share", x.Share != DefaultFault().Share, runWide()},
	} {
		if only.set && !slices.Contains(only.kinds, x.Kind) {
			f.add(path+"."+only.field, "%s means nothing for kind %s; it belongs to %s", only.field, x.Kind, oneOf(only.kinds))
		}
	}
	switch {
	case x.Kind == "delay" && x.By == 0:
		f.add(path, "kind delay without by; say by how much, such as by: 50ms")
	case x.Kind == "throttle" && x.Rate == 0:
		f.add(path, "kind throttle without rate; say to how much, such as rate: 4KiB/s")
	case x.Kind == "status" && x.Code != 502 && x.Code != 503 && x.Code != 429:
		f.add(path+".code", "code %d is no refusal; known: 502, 503 or 429", x.Code)
	}
}

func (x Fault) checkPace(path string, f *findings) {
	wide := slices.Contains(runWide(), x.Kind)
	switch {
	case x.Kind == "none" && (x.PerStream > 0 || x.Every > 0 || len(x.At) > 0):
		f.add(path, "kind none with per_stream, every or at: nothing has no place and no number")
	case x.Kind == "none":
	case x.PerStream > 0 && x.Every > 0:
		f.add(path+".every", "per_stream and every in one item; keep one of them")
	case wide && x.PerStream > 0:
		f.add(path+".per_stream", "kind %s strikes the whole run; did you mean \"every: 30s\"?", x.Kind)
	case wide && len(x.At) > 0:
		f.add(path+".at", "kind %s strikes at an instant, not at a place; leave at out", x.Kind)
	case wide && x.Every == 0:
		f.add(path, "kind %s never strikes; say how often, such as every: 30s", x.Kind)
	case !wide && x.Every > 0:
		f.add(path+".every", "kind %s strikes at positions of a stream; did you mean \"per_stream: 1\"?", x.Kind)
	case !wide && x.PerStream == 0:
		f.add(path, "kind %s never strikes; say how often, such as per_stream: 1", x.Kind)
	case x.PerStream > 1000:
		f.add(path+".per_stream", "%v faults per stream; 1000 at most", x.PerStream)
	}
}

// ParseFault reads the form of the command line:
//
//	KIND[@PLACE[,PLACE]][:N][,key=value…]
//
// Without N it is one per stream, or for kinds of the whole run what every says.
func ParseFault(s string) (Fault, error) {
	x := DefaultFault()
	parts := strings.Split(s, ",")
	words := parts
	for i, part := range parts {
		if strings.Contains(part, "=") {
			words = parts[:i]
			if err := x.options(parts[i:]); err != nil {
				return Fault{}, fmt.Errorf("fault %s: %w", quote(s), err)
			}
			break
		}
	}
	head, number, counted := strings.Cut(strings.Join(words, ","), ":")
	kind, at, placed := strings.Cut(head, "@")
	x.Kind = kind
	if placed {
		x.At = strings.Split(at, ",")
	}
	switch n, err := parseNumber(number); {
	case counted && err != nil:
		return Fault{}, fmt.Errorf("fault %s: bad number %s; write it like rst:0.5", quote(s), quote(number))
	case counted:
		x.PerStream = n
	case kind != "none" && !slices.Contains(runWide(), kind):
		x.PerStream = 1
	}
	var f findings
	x.check("", &f)
	if len(f) > 0 {
		return Fault{}, fmt.Errorf("fault %s: %s", quote(s), f[0].text)
	}
	return x, nil
}

func (x *Fault) options(pairs []string) error {
	fields := map[string]encoding.TextUnmarshaler{"every": &x.Every, "for": &x.For, "by": &x.By, "rate": &x.Rate, "share": &x.Share}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("%s after key=value; places come before them", quote(pair))
		}
		if key == "code" {
			code, err := strconv.Atoi(value)
			if err != nil {
				return fmt.Errorf("bad code %s", quote(value))
			}
			x.Code = code
			continue
		}
		field, known := fields[key]
		if !known {
			return fmt.Errorf("unknown key %s; %s", quote(key), meant(key, []string{"every", "for", "by", "rate", "share", "code"}))
		}
		if err := field.UnmarshalText([]byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// ParseStage reads the form of the command line: 30s:200/s.
func ParseStage(s string) (Stage, error) {
	span, rate, found := strings.Cut(s, ":")
	if !found {
		return Stage{}, fmt.Errorf("stage %s: write it like 30s:200/s", quote(s))
	}
	var out Stage
	if err := out.For.UnmarshalText([]byte(span)); err != nil {
		return Stage{}, fmt.Errorf("stage %s: %w", quote(s), err)
	}
	if err := out.Rate.UnmarshalText([]byte(rate)); err != nil {
		return Stage{}, fmt.Errorf("stage %s: %w", quote(s), err)
	}
	return out, nil
}
