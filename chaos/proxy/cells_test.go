package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-dev/gapless/chaos"
)

// paced is streaming with time between the events, a log head that is behind the last
// event, and a handshake.
func paced(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	if opensSession(b) {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{}}`)
		return
	}
	parts := call()
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		for i, p := range parts {
			if strings.HasPrefix(p, "id: "+id+"\n") {
				parts = parts[i+1:]
				break
			}
		}
		w.Header().Set("Gapless-Missed", fmt.Sprint(max(0, len(parts)-1)))
	} else if r.Method == http.MethodGet {
		parts = parts[:len(parts)-1]
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
	}
}

// user is a client that gives up an attempt after a while and resumes.
type user struct {
	http *http.Client
	url  string
}

func (u *user) do(method, cursor, body string) string {
	req, _ := http.NewRequest(method, u.url, strings.NewReader(body))
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 {
		return ""
	}
	return string(got)
}

// call goes on until the response is there, or until a first attempt brought no id.
func (u *user) call(method string) string {
	all, cursor := "", ""
	for tries := 0; tries < 20 && !strings.Contains(all, response); tries++ {
		got := u.do(method, cursor, "{}")
		got = got[:strings.LastIndex("\n\n"+got, "\n\n")]
		all += got
		if i := strings.LastIndex(got, "id: "); i >= 0 {
			cursor, _, _ = strings.Cut(got[i+4:], "\n")
		}
		if cursor == "" || method == http.MethodGet && tries == 3 {
			break
		}
		method = http.MethodGet
	}
	return all
}

// struck runs a fault against some streams and returns what fired, by cell.
func struck(t *testing.T, f chaos.Fault) map[string]int {
	const streams = 12
	plan, err := chaos.NewPlan(chaos.PlanConfig{
		Seed: 5, Streams: streams, Messages: 5, Mix: []chaos.Fault{f}, Priming: true, IDs: true, Head: true,
		Seat: chaos.SeatProxy, Sessions: streams, GetStreams: streams, FirstGet: streams + 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]int{}
	start := time.Now()
	var nemesis *chaos.Nemesis
	var mu sync.Mutex
	cfg := Config{
		Plan: plan, FirstGet: streams + 1,
		OnInjection: func(in *Injection) {
			mu.Lock()
			defer mu.Unlock()
			if reset := in.Kind == chaos.RST || in.Kind == chaos.Storm; in.Approximate != reset {
				t.Errorf("%+v: what is on its way in memory cannot be seen", in)
			}
			fired[fmt.Sprintf("%s@%s", in.Kind, in.Place)]++
		},
		OnLink: func(l *chaos.Link) { nemesis.Add(l) },
	}
	bubble(t, cfg, func(b *bench) {
		start = time.Now()
		nemesis = chaos.NewNemesis(plan, func() time.Duration { return time.Since(start) })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		srv := &http.Server{Handler: http.HandlerFunc(paced)}
		go srv.Serve(b.back)
		go nemesis.Run(ctx)
		u := &user{url: "http://proxy/mcp", http: &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.front.Dial(ctx) },
		}}}
		for range streams {
			u.do(http.MethodPost, "", `{"method":"initialize"}`)
			u.call(http.MethodGet)
			if all := u.call(http.MethodPost); strings.Contains(all, response) && all != strings.Join(call(), "") {
				t.Errorf("%v: the client got %q", f, all)
			}
		}
		nemesis.Heal()
		cancel()
		srv.Close()
		time.Sleep(time.Minute) // until the last handler has noticed
		synctest.Wait()
		if open := b.Snapshot().Open; open != 0 || nemesis.Counts().Links != 0 {
			t.Errorf("%v: %d links are open, the nemesis has %d", f, open, nemesis.Counts().Links)
		}
		var counted int64
		for _, c := range b.Snapshot().Cells {
			counted += c.Count
			if int64(fired[fmt.Sprintf("%s@%s", c.Kind, c.Place)]) != c.Count {
				t.Errorf("%v: counted %+v, told %v", f, c, fired)
			}
		}
	})
	return fired
}

// What the table says can happen at this seat does happen, and exactly that.
func TestEveryPossibleCellStrikes(t *testing.T) {
	for _, row := range chaos.Cells() {
		if row.Seat != chaos.SeatProxy || !row.Possible {
			continue
		}
		name := fmt.Sprintf("%s@%s", row.Kind, row.Place)
		t.Run(name, func(t *testing.T) {
			f := chaos.Fault{Kind: row.Kind, At: []chaos.Place{row.Place}, PerStream: 1}
			switch row.Kind {
			case chaos.Blackhole:
				f.For = 2 * time.Second
			case chaos.Delay:
				f.By = 20 * time.Millisecond
			case chaos.Throttle:
				f.Rate = 2000
			}
			fired := struck(t, f)
			if fired[name] < 6 {
				t.Errorf("struck %v", fired)
			}
		})
	}
}

func TestStormsStrikeTheLinksOfAProxy(t *testing.T) {
	fired := struck(t, chaos.Fault{Kind: chaos.Storm, Every: 100 * time.Millisecond})
	storms := 0
	for cell, n := range fired {
		if strings.HasPrefix(cell, "storm@") {
			storms += n
		}
	}
	if storms < 5 || len(fired) < 2 {
		t.Errorf("struck %v", fired)
	}
}
