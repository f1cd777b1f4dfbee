package profiles_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/profiles"
)

func TestComplaints(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key – the nearest", "load: {steams: 5}", `p.yaml:1:8: unknown key "steams"; did you mean "streams"?`},
		{"swapped letters – the nearest", "laod: {}", `p.yaml:1:1: unknown key "laod"; did you mean "load"?`},
		{"unknown key far from all – the choices", "tls: {}\n", "p.yaml:1:1: unknown key \"tls\"; known: version, about"},
		{"unknown key in a list – found", "faults:\n  mix:\n    - {kind: rst, per_streem: 1}", `p.yaml:3:19: unknown key "per_streem"; did you mean "per_stream"?`},
		{"duplicate key – both places", "version: 1\nload: {}\nversion: 1", `p.yaml:3:1: duplicate key "version": already given at line 1`},
		{"duplicate key inside – found", "load: {streams: 1, streams: 2}", `p.yaml:1:20: duplicate key "streams"`},
		{"duration without unit – refused", "load: {ramp: 250}", `p.yaml:1:14: bad duration "250": the unit is missing; did you mean "250ms" or "250s"?`},
		{"duration with a wrong unit – refused", "load: {ramp: 2d}", `bad duration "2d"; write it like 250ms, 30s or 8h`},
		{"negative duration – refused", "load: {ramp: -2s}", "it is negative"},
		{"rate without unit – refused", "load: {rate: 50, duration: 1s}", `bad rate "50": the unit is missing; did you mean "50/s"?`},
		{"rate per day – refused", "load: {rate: 50/d}", `bad rate "50/d"; write it like`},
		{"negative rate – refused", "load: {rate: -5/s}", "bad rate"},
		{"rate not a number – refused", "load: {rate: NaN/s}", "bad rate"},
		{"size without unit – refused", "emit: {bytes: 200}", `p.yaml:1:15: bad size "200": the unit is missing; did you mean "200B" or "200KiB"?`},
		{"size in bits – refused", "emit: {bytes: 4Kib}", `bad size "4Kib"; write it like`},
		{"part of a byte – refused", "emit: {bytes: 0.3B}", "bad size"},
		{"size too large – refused", "emit: {bytes: 99999999999GiB}", "bad size"},
		{"percentage without sign – refused", "resume: {jitter: 10}", `bad percentage "10": the sign is missing; did you mean "10%"?`},
		{"percentage above all – refused", "resume: {jitter: 101%}", "above 100%"},
		{"count of nothing – refused", "calls: [{expect: {messages: 0}}]", "write auto or a whole number from 1"},
		{"text for a number – refused", "load: {streams: many}", `p.yaml:1:17: streams wants a whole number, not "many"`},
		{"number for text – refused", "about: 7", `p.yaml:1:8: about wants text, not 7; did you mean "7"?`},
		{"text for a switch – refused", `load: {hold: "yes"}`, `hold wants true or false, not "yes"`},
		{"value for a map – refused", "load: 5", "p.yaml:1:7: load wants a map, not a value"},
		{"value for a list – refused", "faults: {mix: [{at: mid-event, per_stream: 1}]}", "at wants a list, not a value; did you mean [mid-event]?"},
		{"map for a value – refused", "about: {a: b}", "about wants a value, not a map"},
		{"list for a duration – refused", "load: {ramp: [1s]}", "ramp wants a value, not a list"},
		{"list for a profile – refused", "- a", "a profile is a map of sections, not a list"},
		{"empty section – refused", "load:\nabout: x", "p.yaml:1:6: load is empty; leave the key out"},
		{"not YAML – line", "a: b\n\tc: d", "p.yaml:2:1: not YAML"},
		{"two documents – refused", "version: 1\n---\nversion: 1\n", "a second document begins here"},
		{"merge key – refused", "load: {<<: {streams: 1}}", `did you mean "extends"?`},
		{"key that is a list – refused", "? [a]\n: b", "a key has to be a plain word"},
		{"endless alias – refused", "calls: &a\n  - args: {x: *a}", "too large or too deep"},
		{"fifty lists deep – refused", "about: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "too large or too deep"},
		{"other version – refused", "version: 2", "p.yaml:1:10: version 2; this gapless reads version 1"},
	} {
		t.Run(tc.name, func(t *testing.T) { refuses(t, tc.text, tc.want) })
	}
}

func TestImpossibleCombinations(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"stdio with url – refused", "target: {url: 'http://a/b', exec: x, transport: stdio}", "p.yaml:1:15: url with exec over stdio"},
		{"exec without url – refused", "target: {exec: x}", "(url, --target URL), or that it speaks stdio (transport: stdio, --transport stdio)"},
		{"server with url – refused", "target: {url: 'http://a/b'}\nserver: {store: memory}", "p.yaml:2:9: server settings with target.url or target.exec"},
		{"ready_timeout without exec – refused", "target: {ready_timeout: 3s}", "ready_timeout without exec"},
		{"bad url – refused", "target: {url: localhost:80}", "bad url"},
		{"unknown scheme – refused", "target: {url: 'ftp://a/b'}", `unknown scheme "ftp"`},
		{"protocol of another dialect – named", "target: {protocol: 2026-07-28, dialect: resume}", `p.yaml:1:20: protocol "2026-07-28" does not belong to dialect resume; did you mean dialect: modern?`},
		{"no such protocol – the nearest", "target: {protocol: 2025-11-26}", `did you mean "2025-11-25"?`},
		{"protocol that is no date – refused", "target: {protocol: latest}", `bad protocol revision "latest"`},
		{"ws for resume – refused", "target: {transport: ws}", "transport ws belongs to dialect streams"},
		{"two tokens – refused", "target: {token: {env: A, file: b}}", "a token from 2 places"},
		{"certificate without key – refused", "target: {tls: {cert: a}}", "needs both cert and key"},
		{"streams with rate – refused", "load:\n  streams: 5\n  rate: 5/s\n  duration: 1s", "p.yaml:3:9: streams and rate in one load"},
		{"streams with stages – refused", "load: {streams: 5, stages: [{for: 1s, rate: 5/s}]}", "streams and stages in one load"},
		{"rate with stages – refused", "load: {rate: 1/s, duration: 1s, stages: [{for: 1s, rate: 5/s}]}", "rate and stages in one load"},
		{"rate without duration – refused", "load: {rate: 5/s}", "rate without duration"},
		{"duration without rate – refused", "load: {duration: 5s}", "duration without rate"},
		{"calls with rate – refused", "load: {rate: 5/s, duration: 1s, calls: 5}", "calls belongs to the closed model"},
		{"hold with rate – refused", "load: {rate: 5/s, duration: 1s, hold: true}", "hold belongs to the closed model"},
		{"hold with more calls than streams – refused", "load: {streams: 5, calls: 6, hold: true}", "hold waits until all calls are open"},
		{"fewer calls than streams – refused", "load: {streams: 5, calls: 4}", "4 calls cannot keep 5 streams open; did you mean streams: 4 (--streams 4)?"},
		{"more streams than max_open – refused", "load: {streams: 30000}", "raise max_open"},
		{"no load – refused", "load: {streams: 0}", "no load"},
		{"stages that never start anything – refused", "load: {stages: [{for: 5s, rate: 0}]}", "no stage has a rate above 0"},
		{"negative sessions – refused", "load: {sessions: -1}", "p.yaml:1:18: sessions is -1"},
		{"stage without time – refused", "load: {stages: [{rate: 5/s}]}", "a stage without for"},
		{"bbolt without file – refused", "server: {store: bbolt}", `did you mean "bbolt:events.db"?`},
		{"unknown store – refused", "server: {store: redis}", `unknown store "redis"`},
		{"unknown kind – the nearest", "faults: {mix: [{kind: rts, per_stream: 1}]}", `p.yaml:1:23: unknown kind "rts"; did you mean "rst"?`},
		{"unknown place – the nearest", "faults: {mix: [{at: [mid-evnt], per_stream: 1}]}", `p.yaml:1:22: unknown place "mid-evnt"; did you mean "mid-event"?`},
		{"place twice – refused", "faults: {mix: [{at: [mid-event, mid-event], per_stream: 1}]}", "listed twice"},
		{"fault that never strikes – refused", "faults: {mix: [{kind: fin}]}", "kind fin never strikes"},
		{"storm per stream – refused", "faults: {mix: [{kind: storm, per_stream: 1}]}", `did you mean "every: 30s"?`},
		{"storm at a place – refused", "faults: {mix: [{kind: storm, every: 1s, at: [mid-event]}]}", "strikes at an instant"},
		{"rst by the clock – refused", "faults: {mix: [{kind: rst, every: 3s}]}", `did you mean "per_stream: 1"?`},
		{"per_stream and every – refused", "faults: {mix: [{kind: storm, every: 3s, per_stream: 1}]}", "keep one of them"},
		{"code for rst – refused", "faults: {mix: [{kind: rst, per_stream: 1, code: 502}]}", "code means nothing for kind rst"},
		{"share of one stream – refused", "faults: {mix: [{kind: rst, per_stream: 1, share: 50%}]}", "share means nothing for kind rst"},
		{"delay by nothing – refused", "faults: {mix: [{kind: delay, per_stream: 1}]}", "delay without by"},
		{"throttle to nothing – refused", "faults: {mix: [{kind: throttle, per_stream: 1}]}", "throttle without rate"},
		{"status of success – refused", "faults: {mix: [{kind: status, per_stream: 1, code: 200}]}", "is no refusal"},
		{"none beside others – refused", "faults: {mix: [{kind: none}, {kind: rst, per_stream: 1}]}", "kind none beside others"},
		{"crash of a server of others – refused", "target: {url: 'http://a/b'}\nfaults: {mix: [{kind: server-crash, every: 3s}]}", "hurts the reference server from inside"},
		{"window that ends before it starts – refused", "faults: {start: 3s, stop: 2s}", "stop 2s is not after start 3s"},
		{"ledger of a server of others – refused", "target: {url: 'http://a/b'}\njudge: {oracle: ledger}", "oracle ledger needs the reference server"},
		{"unknown contract – the nearest", "judge: {contract: exactly_once}", `did you mean "exactly-once"?`},
		{"unknown invariant – the nearest", "judge: {ignore: [no-los]}", `unknown invariant "no-los"; did you mean "no-loss"?`},
		{"backoff above its maximum – refused", "resume: {backoff: 9s}", "backoff_max 5s is below backoff 9s"},
		{"unknown figure – the nearest", "thresholds: {resume_caughtup: ['p(99)<1s']}", `did you mean "resume_caught_up"?`},
		{"bad threshold – shown", "thresholds: {first_event: ['p99<1s']}", `p.yaml:1:28: bad threshold "p99<1s", character 2: after p comes the quantile in brackets, such as p(99); write it like p(99)<1s`},
		{"pointer with dots – the pointer", "calls: [{expect: {total: params.total}}]", `did you mean "/params/total"?`},
		{"no calls – refused", "calls: []", "no calls"},
		{"call without tool – refused", "calls: [{tool: ''}]", "a call without tool"},
		{"polling closes before there were any – refused", "emit: {polling_closes: 1}\ntarget: {protocol: 2025-06-18}", "p.yaml:1:24: polling_closes with protocol 2025-06-18"},
		{"negative requests – refused", "emit: {requests: -1}", "requests is -1"},
		{"negative probes – refused", "judge: {probes: -1}", "probes is -1"},
		{"share of calls without sign – refused", "load: {cancel: 5}", `did you mean "5%"?`},
		{"history that holds nothing – refused", "history: {bytes: 1KiB}", "p.yaml:1:18: bytes is 1KiB; a history that is worth keeping needs 1MiB"},
		{"GET stream that nobody opens – refused", "faults: {mix: [{at: [mid-event, get-stream], per_stream: 1}]}", "p.yaml:1:33: place get-stream without standalone GET streams"},
		{"negative reach – refused", "reach: {cuts: -1}", "cuts is -1"},
	} {
		t.Run(tc.name, func(t *testing.T) { refuses(t, tc.text, tc.want) })
	}
}

func refuses(t *testing.T, text, want string) {
	t.Helper()
	_, err := profiles.Parse("p.yaml", []byte(text))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error does not say %q:\n%v", want, err)
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, "p.yaml:") {
			t.Errorf("no position in %q", line)
		}
	}
	var c *profiles.Complaint
	if !errors.As(err, &c) || c.Line < 1 || c.Column < 1 {
		t.Errorf("no complaint with a position in %v", err)
	}
}

func TestAllComplaintsAtOnce(t *testing.T) {
	text := "lod: 3\nload: {steams: 3, ramp: 25}\nfaults:\n  seat: clint\n  mix:\n    - {kind: rts, per_stream: 1}\nversion: 1\nversion: 1\n"
	_, err := profiles.Parse("p.yaml", []byte(text))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`"lod"`, `"steams"`, `"25"`, `"clint"`, `"rts"`, "duplicate"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about %s in\n%v", want, err)
		}
	}
}

func TestNothingFollowsFromWhatCouldNotBeRead(t *testing.T) {
	_, err := profiles.Parse("p.yaml", []byte("load: {rate: 50, duration: 30s}"))
	if err == nil || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("want the one complaint about the unit, got\n%v", err)
	}
}

// TestUMCPHasNo: what means nothing in dialect umcp is refused, and each stream has a
// session of its own.
func TestUMCPHasNo(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"load: {get_streams: 1}", "each stream of the load is the GET stream"},
		{"load: {streams: 1500, hold: true}", "never open together"},
		{"server: {store: memory}", "keeps nothing and resumes nothing"},
		{"server: {defect: S03}", "keeps nothing and resumes nothing"},
		{"server: {store: none}", ""},
		{"faults: {mix: [{kind: rst, at: [get-stream], per_stream: 1}]}", ""},
	} {
		_, err := profiles.Parse("p.yaml", []byte("target: {dialect: umcp}\n"+c.text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", c.text, err, c.want)
		}
	}
	p, err := profiles.Parse("p.yaml", []byte("target: {dialect: umcp}\nload: {streams: 50, sessions: 3}"))
	if err != nil || p.SessionCount() != 54 || p.Judge.Contract != "none" || p.Target.Protocol != "2025-03-26" || p.Built() != nil {
		t.Errorf("%d sessions, contract %s, %s, %v", p.SessionCount(), p.Judge.Contract, p.Target.Protocol, err)
	}
	p.Load.Streams = 5000
	if p.SessionCount() != 1000 {
		t.Errorf("%d sessions, more than the contract has", p.SessionCount())
	}
}

func TestBuilt(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a fault inside the server – refused", "faults: {mix: [{kind: store-fault, every: 3s}]}", "fault kind store-fault (built: rst, fin,"},
		{"a crash of the server – refused", "faults: {mix: [{kind: server-crash, every: 3s}]}", "fault kind server-crash"},
		{"a drain of the server – refused", "faults: {mix: [{kind: server-drain, every: 3s}]}", "fault kind server-drain"},
		{"a neighbour – refused", "faults: {mix: [{kind: noisy-neighbour, every: 3s}]}", "fault kind noisy-neighbour"},
		{"oracle – refused", "judge: {oracle: wire}", "oracle wire"},
		{"reference server over stdio – refused", "target: {transport: stdio}", "transport stdio of the reference server"},
		{"url of a WebSocket – refused", "target: {url: 'ws://a/b'}", "urls of WebSockets"},
		{"dialect – refused", "target: {dialect: streams, transport: ws}", "transport ws"},
		{"transport of a dialect – refused", "target: {dialect: streams, transport: stdio}", "dialect streams over stdio"},
		{"store – refused", "server: {store: 'bbolt:x'}", "store bbolt:x"},
		{"defect – refused", "server: {defect: S07}", "defect S07"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profiles.Parse("p.yaml", []byte(tc.text))
			if err != nil {
				t.Fatalf("a valid profile: %v", err)
			}
			if err := p.Built(); err == nil || !strings.Contains(err.Error(), "not built yet: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not say %q", err, tc.want)
			}
		})
	}
	for _, text := range []string{
		"", "server: {defect: 'S03b,k=10'}", "server: {defect: s05}", "judge: {oracle: numbered}", "faults: {mix: [{kind: none}]}", "target: {protocol: 2025-06-18}", "target: {url: 'http://127.0.0.1:1/mcp', headers: {A: b}}", "load: {streams: 5000, hold: true}", "server: {on_conflict: 409}",
		"server: {store: none}\njudge: {contract: none}", "judge: {contract: at-least-once, ignore: [primed], probes: 0}", "judge: {contract: bounded}",
		"target: {protocol: 2025-03-26}", "load: {rate: 1/s, duration: 1s, cancel: 10%}", "load: {stages: [{for: 1s, rate: 1/s}], max_open: 5}",
		"load: {get_streams: 1}\nfaults: {seat: proxy, start: 1s, stop: 3s, mix: [{at: [get-stream, request, headers, before-first-id, initialize], per_stream: 1}]}",
		"target: {exec: x, transport: stdio}", "target: {url: 'https://a/b', token: {env: A}, http: '2', tls: {ca: x}, max_rate: 5/s, pid: 3}", "target: {url: 'http://a/b', dialect: modern}",
		"calls: [{}, {tool: a, weight: 3, expect: {digest: /a, total: /b}}]\nthresholds: {first_event: ['p(99)<1s']}", "judge: {oracle: twin}",
		"server: {delivery: handoff, lock: session}", "server: {lock: global}",
		"emit: {polling_closes: 1, requests: 2}\nreach: {storms: 1}\nhistory: {bytes: 1MiB}",
	} {
		p, err := profiles.Parse("p.yaml", []byte(text))
		if err := errors.Join(err, p.Built()); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseFault(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"rst", "{rst [] 1 0s 0s 0s 0 503 100%}"},
		{"rst:0.5", "{rst [] 0.5 0s 0s 0s 0 503 100%}"},
		{"fin@mid-event,after-priming:2", "{fin [mid-event after-priming] 2 0s 0s 0s 0 503 100%}"},
		{"storm,every=30s", "{storm [] 0 30s 0s 0s 0 503 100%}"},
		{"storm,every=30s,share=50%", "{storm [] 0 30s 0s 0s 0 503 50%}"},
		{"delay:1,by=50ms", "{delay [] 1 0s 0s 50ms 0 503 100%}"},
		{"stall@mid-event:1,for=10s", "{stall [mid-event] 1 0s 10s 0s 0 503 100%}"},
		{"status,code=429", "{status [] 1 0s 0s 0s 0 429 100%}"},
		{"throttle,rate=4KiB/s", "{throttle [] 1 0s 0s 0s 4KiB/s 503 100%}"},
		{"none", "{none [] 0 0s 0s 0s 0 503 100%}"},
	} {
		got, err := profiles.ParseFault(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if s := show(got); s != tc.want {
			t.Errorf("%s: got %s, want %s", tc.text, s, tc.want)
		}
	}
	for text, want := range map[string]string{
		"rts": `did you mean "rst"?`, "rst@": "unknown place", "rst:": "bad number", "rst:x": "bad number", "rst:0": "never strikes",
		"rst:-1": "bad number", "storm": "never strikes", "storm,evry=3s": `did you mean "every"?`, "delay,by=50": "the unit is missing",
		"": "unknown kind", "none:1": "nothing has no place", "rst,for=": "bad duration", "status,code=x": "bad code", "delay,by=1s,mid-event": "after key=value",
	} {
		if _, err := profiles.ParseFault(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", text, err, want)
		}
	}
}

func show(f profiles.Fault) string {
	return fmt.Sprintf("{%s %v %v %v %v %v %v %d %v}", f.Kind, f.At, f.PerStream, f.Every, f.For, f.By, f.Rate, f.Code, f.Share)
}

func TestParseStage(t *testing.T) {
	s, err := profiles.ParseStage("30s:3000/m")
	if err != nil || s.For.String() != "30s" || s.Rate.PerSecond() != 50 {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, bad := range []string{"", "30s", "30:5/s", "30s:5", "x:y"} {
		if _, err := profiles.ParseStage(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestUnitsAreWrittenAsTheyAreRead(t *testing.T) {
	p, err := profiles.Parse("p.yaml", []byte("load: {ramp: 90s, drain: 8h}\nemit: {bytes: 1500B, result_bytes: 4kB}\nserver: {limits: {bytes: 2GiB}}\ntarget: {max_rate: 90/m}"))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{p.Load.Ramp.String(), p.Load.Drain.String(), p.Emit.Bytes.String(), p.Emit.ResultBytes.String(), p.Server.Limits.Bytes.String(), p.Target.MaxRate.String()}
	if want := "1m30s 8h 1500B 4000B 2GiB 1.5/s"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{complete, vendor, "load: {streams: 1}", "? [a]\n: b", "&a [*a]", "a: !!binary x", "- - -"} {
		f.Add(strings.Replace(seed, "extends: \"\"", "", 1))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "extends") {
			t.Skip("reads files of the machine")
		}
		p, err := profiles.Parse("p.yaml", []byte(text))
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		out, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := profiles.Parse("again.yaml", out); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
	})
}

func TestImpossibleCallsAndCredentials(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"two client secrets – refused", "target: {oauth: {token_url: 'https://a/t', client_id: b, client_secret: {env: A, file: b}}}", "a client secret from 2 places"},
		{"half of OAuth – refused", "target: {oauth: {client_id: b}}", "client credentials need token_url, client_id and client_secret"},
		{"token with OAuth – refused", "target: {token: {env: A}, oauth: {token_url: 'https://a/t', client_id: b, client_secret: {env: A}}}", "token and oauth"},
		{"HTTP of another version – refused", "target: {http: '3'}", `unknown http "3"`},
		{"tool with resource – refused", "calls: [{tool: a, resource: 'file:///b'}]", "a call of several things"},
		{"call of nothing – refused", "calls: [{tool: ''}]", "a call without tool"},
		{"arguments of a resource – refused", "calls: [{resource: 'file:///b', args: {a: 1}}]", "args with resource"},
	} {
		t.Run(tc.name, func(t *testing.T) { refuses(t, tc.text, tc.want) })
	}
}
