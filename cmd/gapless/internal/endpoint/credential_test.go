package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// credentialOf asks once.
func credentialOf(t *testing.T, e *Endpoint) string {
	t.Helper()
	got, err := e.Credential()(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestNoCredential(t *testing.T) {
	if made(t, Config{URL: "http://h"}).Credential() != nil {
		t.Error("a credential that nobody configured")
	}
}

func TestTokenFromTheEnvironment(t *testing.T) {
	for value, want := range map[string]string{" abc\n": "Bearer abc", "Bearer abc": "Bearer abc", "bearer  abc": "Bearer abc", "a=b c": "Bearer a=b c"} {
		e := made(t, Config{URL: "https://h", Token: Secret{Env: "T"}, Getenv: environment("T", value)})
		if got := credentialOf(t, e); got != want {
			t.Errorf("%q: %q", value, got)
		}
	}
}

// TestTokenFileIsReadAgain when it is replaced, and what it held stands while it cannot be read.
func TestTokenFileIsReadAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	at := time.Now().Add(-time.Hour)
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	e := made(t, Config{URL: "https://h", Token: Secret{File: name}})
	for _, step := range []struct{ write, want string }{{"", "one"}, {"two", "two"}, {"ten", "ten"}, {"\n", "ten"}, {"bad\nhush", "ten"}, {"three", "three"}} {
		if step.write != "" {
			write(step.write)
		}
		if got := credentialOf(t, e); got != "Bearer "+step.want {
			t.Errorf("after %q: %q", step.write, got)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if got := credentialOf(t, e); got != "Bearer three" {
		t.Errorf("without the file: %q", got)
	}
}

// script writes a program of ours.
func script(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "give")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTokenFromACommand(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	// The argument would be two to a shell.
	name := script(t, `echo run >> "`+runs+`"; echo "$1"; echo second line`)
	e := made(t, Config{URL: "https://h", Token: Secret{Command: []string{name, "a;b"}}})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if got := credentialOf(t, e); got != "Bearer a;b" {
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(runs); string(text) != "run\n" {
		t.Errorf("it ran %q, %v", text, err)
	}
}

func TestCommandsThatFail(t *testing.T) {
	for name, tt := range map[string]struct {
		command []string
		says    []string
	}{
		"not there":     {[]string{"nowhere-to-be-found", "hush"}, []string{"nowhere-to-be-found", "not found"}},
		"no program":    {[]string{filepath.Join(t.TempDir(), "x"), "hush"}, []string{"no such file"}},
		"exit":          {[]string{script(t, "echo hush; echo hush >&2; exit 3")}, []string{"exit status 3", "by hand"}},
		"says nothing":  {[]string{script(t, "true")}, []string{"first line", "blanks"}},
		"empty line":    {[]string{script(t, "echo; echo hush")}, []string{"first line", "blanks"}},
		"bad character": {[]string{script(t, `printf 'hush\tx\n'`)}, []string{"first line", "byte 4"}},
		"talks on":      {[]string{script(t, `yes hush | head -c 100000 | tr -d '\n'`)}, []string{"first line", "more than"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := made(t, Config{URL: "https://h", Token: Secret{Command: tt.command}})
			_, err := e.Credential()(t.Context())
			refused(t, err, append(tt.says, "target.token.command")...)
		})
	}
}

// TestCommandEndsWithTheCaller, even when a child of it holds its stdout.
func TestCommandEndsWithTheCaller(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	e := made(t, Config{URL: "https://h", Token: Secret{Command: []string{script(t, "sleep 5 & wait")}}})
	began := time.Now()
	_, err := e.Credential()(ctx)
	refused(t, err, "target.token.command")
	if took := time.Since(began); took > 4*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v after %v", err, took)
	}
}

// TestCredentialsAreRenewed in virtual time: one at a time, before they expire, while all
// others go on with the one before.
func TestCredentialsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, broken := 0, false
		c := &cached{fetch: func(context.Context) (credential, error) {
			time.Sleep(time.Second)
			n++
			if broken {
				return credential{}, fmt.Errorf("failure %d", n)
			}
			now := time.Now()
			return credential{value: fmt.Sprint("v", n), renew: now.Add(50 * time.Second), until: now.Add(time.Minute)}, nil
		}}
		// ask lets ten ask at once and says what they got, in order of their waits.
		ask := func() (got [10]string, waited int) {
			var all sync.WaitGroup
			var waits atomic.Int32
			for i := range got {
				all.Go(func() {
					began := time.Now()
					v, err := c.get(t.Context())
					if err != nil {
						v = err.Error()
					}
					got[i] = v
					if time.Since(began) > 0 {
						waits.Add(1)
					}
				})
			}
			all.Wait()
			return got, int(waits.Load())
		}
		count := func(got [10]string, v string) (k int) {
			for _, g := range got {
				if g == v {
					k++
				}
			}
			return k
		}
		check := func(when string, v string, want, wait int) {
			t.Helper()
			got, waited := ask()
			if count(got, v) != want || waited != wait {
				t.Errorf("%s: %v, %d waited", when, got, waited)
			}
		}
		check("at first", "v1", 10, 10)
		check("while fresh", "v1", 10, 0)
		time.Sleep(50 * time.Second)
		check("when to be renewed", "v1", 9, 1)
		check("renewed", "v2", 10, 0)
		broken = true
		time.Sleep(51 * time.Second)
		check("renewal fails", "v2", 10, 1)
		check("and is not tried at once", "v2", 10, 0)
		time.Sleep(10 * time.Second)
		check("expired", "failure 4", 10, 10)
		check("the failure stands", "failure 4", 10, 0)
		time.Sleep(failAge)
		broken = false
		check("until it is tried again", "v5", 10, 10)
	})
}

func TestWaitingForACredentialEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cached{fetch: func(ctx context.Context) (credential, error) {
			<-ctx.Done()
			return credential{}, ctx.Err()
		}}
		slow, stop := context.WithCancel(t.Context())
		go func() { _, _ = c.get(slow) }() // it is stopped
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited with %v", err)
		}
		stop()
		synctest.Wait()
		// That the other gave up is no failure of whoever gives credentials.
		c.fetch = func(context.Context) (credential, error) {
			return credential{value: "v", until: time.Now().Add(time.Hour)}, nil
		}
		if v, err := c.get(t.Context()); v != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// tokens is an OAuth token endpoint.
func tokens(answer func(n int) (status int, text string), asked *atomic.Int32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		id, secret, _ := r.BasicAuth()
		if r.PostFormValue("client_id") != "" {
			id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
		}
		if id != "robot" || secret != "hush" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "a b" {
			http.Error(w, "hush", http.StatusTeapot)
			return
		}
		status, text := answer(n)
		w.Header().Set("Content-Type", "application/json")
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere?secret=hush")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // seen at the other end
	})
}

func oauth(url string) OAuth {
	return OAuth{TokenURL: url, ClientID: "robot", ClientSecret: Secret{Env: "S"}, Scopes: []string{"a", "b"}}
}

// TestOAuth through TLS and a proxy, as the target is reached.
func TestOAuth(t *testing.T) {
	a := newAuthority(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	var asked atomic.Int32
	serve(t, l, &http.Server{TLSConfig: one(a.pair(nil)), Handler: tokens(func(n int) (int, string) {
		return 200, fmt.Sprintf(`{"access_token":"t%d","token_type":"bearer","expires_in":3600}`, n)
	}, &asked)})
	p := newTunnels(t, l.Addr().String(), one(a.pair(nil)))
	e := made(t, Config{
		URL: "https://h", TLS: TLS{CA: a.file}, HTTPProxy: "https://" + p.Addr().String(),
		OAuth: oauth("https://localhost/token"), Getenv: environment("S", "hush"),
	})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if got := credentialOf(t, e); got != "Bearer t1" {
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
	if asked.Load() != 1 || p.lines() != "CONNECT localhost:443 localhost:443" {
		t.Errorf("asked %d times, %q", asked.Load(), p.lines())
	}
}

func TestOAuthRenews(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	var asked atomic.Int32
	serve(t, l, &http.Server{Handler: tokens(func(n int) (int, string) {
		return 200, fmt.Sprintf(`{"access_token":"t%d","token_type":"Bearer","expires_in":1}`, n)
	}, &asked)})
	e := made(t, Config{URL: "http://127.0.0.1", OAuth: oauth("http://" + l.Addr().String()), Getenv: environment("S", "hush")})
	if got := credentialOf(t, e); got != "Bearer t1" {
		t.Fatalf("got %q", got)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		if credentialOf(t, e) == "Bearer t2" {
			return
		}
		<-tick.C
	}
	t.Error("the token was not renewed within two seconds of a life of one")
}

// TestOAuthInTheBody: a server that takes no HTTP Basic is asked otherwise, and then at once.
func TestOAuthInTheBody(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	basics, bodies := 0, 0
	serve(t, l, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); ok {
			basics++
			http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
			return
		}
		bodies++
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer"}`, r.PostFormValue("client_secret")) // seen at the other end
	})})
	secret := func(context.Context) (string, error) { return "s", nil }
	a := &asker{OAuth: oauth("http://" + l.Addr().String()), client: http.DefaultClient, secret: secret}
	for range 2 {
		got, err := a.fetch(t.Context())
		if age := time.Until(got.until); got.value != "Bearer s" || err != nil || age > 2*tokenAge || age < tokenAge {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if basics != 1 || bodies != 2 {
		t.Errorf("%d by HTTP Basic, %d in the body", basics, bodies)
	}
}

func TestOAuthThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		text   string
		says   []string
	}{
		"wrong client":       {401, `{"error":"invalid_client","error_description":"hush"}`, []string{"invalid_client"}},
		"odd error":          {400, `{"error":"HUSH hush"}`, []string{"400 Bad Request"}},
		"no JSON":            {500, "hush", []string{"500 Internal Server Error"}},
		"redirect":           {302, "", []string{"redirects (302)", "give the URL"}},
		"no token":           {200, `{"hush":1}`, []string{"no token response"}},
		"not JSON":           {200, `hush`, []string{"no token response"}},
		"other type":         {200, `{"access_token":"hush","token_type":"mac"}`, []string{`type "MAC"`, "Bearer only"}},
		"token with a break": {200, `{"access_token":"hush\r\nX: y","token_type":"bearer"}`, []string{"byte 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "tcp", "127.0.0.1:0")
			var asked atomic.Int32
			serve(t, l, &http.Server{Handler: tokens(func(int) (int, string) { return tt.status, tt.text }, &asked)})
			e := made(t, Config{URL: "http://127.0.0.1", OAuth: oauth("http://" + l.Addr().String() + "/token?secret=hush"), Getenv: environment("S", "hush")})
			_, err := e.Credential()(t.Context())
			refused(t, err, append(tt.says, "target.oauth", l.Addr().String())...)
			if strings.Contains(err.Error(), "X: y") {
				t.Errorf("%q shows the token", err)
			}
		})
	}
	l := listen(t, "tcp", "127.0.0.1:0")
	_ = l.Close() // so that nobody is there
	e := made(t, Config{URL: "http://127.0.0.1", OAuth: oauth("http://" + l.Addr().String() + "?secret=hush"), Getenv: environment("S", "hush")})
	_, err := e.Credential()(t.Context())
	refused(t, err, "target.oauth", "refused")
}
