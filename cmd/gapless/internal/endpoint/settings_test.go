package endpoint

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

// TestBadSettings: each error says where, and no secret.
func TestBadSettings(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.files(&x509.Certificate{})
	_, other := a.files(&x509.Certificate{})
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	blank := filepath.Join(t.TempDir(), "blank")
	if err := os.WriteFile(blank, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := a.write("ENCRYPTED PRIVATE KEY", []byte("x"))
	env := map[string]string{"BAD": "hush\r\nX: y", "BLANK": " ", "LONG": longText("h", maxSecret+1)}
	const where = "https://example.com/mcp"
	for name, tt := range map[string]struct {
		config Config
		says   []string
	}{
		"version":               {Config{HTTP: "3"}, []string{"target.http", `"3"`, "auto, 1.1 or 2"}},
		"CA missing":            {Config{TLS: TLS{CA: "nowhere.pem"}}, []string{"target.tls.ca", "nowhere.pem", "no such file"}},
		"CA without PEM":        {Config{TLS: TLS{CA: text}}, []string{"target.tls.ca", text, "no certificate"}},
		"CA is a folder":        {Config{TLS: TLS{CA: t.TempDir()}}, []string{"target.tls.ca", "directory"}},
		"certificate alone":     {Config{TLS: TLS{Cert: cert}}, []string{"target.tls.cert", "without target.tls.key"}},
		"key alone":             {Config{TLS: TLS{Key: key}}, []string{"target.tls.key", "without target.tls.cert"}},
		"certificate missing":   {Config{TLS: TLS{Cert: "nowhere.pem", Key: key}}, []string{"target.tls.cert", "nowhere.pem"}},
		"key missing":           {Config{TLS: TLS{Cert: cert, Key: "nowhere.pem"}}, []string{"target.tls.key", "nowhere.pem"}},
		"key of another":        {Config{TLS: TLS{Cert: cert, Key: other}}, []string{"target.tls.key", other, "is not the key"}},
		"key for certificate":   {Config{TLS: TLS{Cert: key, Key: key}}, []string{"target.tls.cert", "no certificate"}},
		"certificate for key":   {Config{TLS: TLS{Cert: cert, Key: cert}}, []string{"target.tls.key", "no private key"}},
		"encrypted key":         {Config{TLS: TLS{Cert: cert, Key: locked}}, []string{"target.tls.key", "encrypted"}},
		"two things wrong":      {Config{HTTP: "3", TLS: TLS{Cert: cert}}, []string{"target.http", "target.tls.cert"}},
		"token twice":           {Config{Token: Secret{Env: "A", File: text}}, []string{"target.token", "more than one"}},
		"token not set":         {Config{Token: Secret{Env: "A"}}, []string{"target.token.env", "variable A"}},
		"token blank":           {Config{Token: Secret{Env: "BLANK"}}, []string{"target.token.env", "BLANK", "blanks"}},
		"token with line end":   {Config{Token: Secret{Env: "BAD"}}, []string{"target.token.env", "BAD", "byte 4"}},
		"token too long":        {Config{Token: Secret{Env: "LONG"}}, []string{"target.token.env", "LONG", "more than"}},
		"token file missing":    {Config{Token: Secret{File: "nowhere"}}, []string{"target.token.file", "nowhere"}},
		"token file blank":      {Config{Token: Secret{File: blank}}, []string{"target.token.file", blank, "blanks"}},
		"command without name":  {Config{Token: Secret{Command: []string{"", "hush"}}}, []string{"target.token.command", "empty"}},
		"token and OAuth":       {Config{Token: Secret{File: text}, OAuth: OAuth{ClientID: "c"}}, []string{"target.token and target.oauth"}},
		"OAuth with holes":      {Config{OAuth: OAuth{Scopes: []string{"a"}}}, []string{"target.oauth.token_url", "target.oauth.client_id", "target.oauth.client_secret"}},
		"OAuth by ftp":          {Config{OAuth: OAuth{TokenURL: "ftp://hush", ClientID: "c", ClientSecret: Secret{File: text}}}, []string{"target.oauth.token_url", "ftp"}},
		"OAuth by socket":       {Config{OAuth: OAuth{TokenURL: "http+unix:///x", ClientID: "c", ClientSecret: Secret{File: text}}}, []string{"target.oauth.token_url", "Unix socket"}},
		"proxy scheme":          {Config{HTTPProxy: "socks5://u:hush@h"}, []string{"target.http_proxy", "socks5", "only http://"}},
		"proxy no URL":          {Config{HTTPProxy: "http://u:hu%sh@h"}, []string{"target.http_proxy", "is not a URL"}},
		"proxy port":            {Config{HTTPProxy: "http://h:99999"}, []string{"target.http_proxy", "port outside"}},
		"proxy without host":    {Config{HTTPProxy: "http://"}, []string{"target.http_proxy", "no host"}},
		"proxy for a socket":    {Config{URL: "http+unix:///x", HTTPProxy: "http://h"}, []string{"target.http_proxy", "Unix socket"}},
		"header name":           {Config{Header: map[string]string{"A b": "hush"}}, []string{"target.headers", `"A b"`}},
		"header value":          {Config{Header: map[string]string{"A": "hush\nB: c"}}, []string{"target.headers", "A", "byte 4"}},
		"header of ours":        {Config{Header: map[string]string{"host": "hush"}}, []string{"target.headers", "host", "gapless itself"}},
		"proxy auth as header":  {Config{Header: map[string]string{"Proxy-Authorization": "hush"}}, []string{"target.headers", "target.http_proxy"}},
		"header and token":      {Config{Header: map[string]string{"authorization": "hush"}, Token: Secret{File: text}}, []string{"target.headers", "target.token"}},
		"environment":           {Config{HTTPProxy: "env", Getenv: func(n string) string { return map[string]string{"HTTPS_PROXY": "socks5://u:hush@h"}[n] }}, []string{"HTTPS_PROXY", "socks5"}},
		"environment in a page": {Config{URL: "http://example.com", Getenv: func(n string) string { return map[string]string{"HTTP_PROXY": "http://h", "REQUEST_METHOD": "GET"}[n] }}, []string{"HTTP_PROXY", "REQUEST_METHOD"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.config.URL == "" {
				tt.config.URL = where
			}
			if tt.config.Getenv == nil {
				tt.config.Getenv = func(name string) string { return env[name] }
			}
			_, err := New(tt.config)
			refused(t, err, tt.says...)
		})
	}
}

func TestNotes(t *testing.T) {
	token := func(string) string { return "hush" }
	for name, tt := range map[string]struct {
		config Config
		says   string // "": no note
	}{
		"plain":                      {Config{URL: "http://example.com"}, ""},
		"insecure":                   {Config{URL: "https://example.com", TLS: TLS{Insecure: true}}, "CERTIFICATES ARE NOT CHECKED"},
		"insecure without TLS":       {Config{URL: "http://example.com", TLS: TLS{Insecure: true}}, ""},
		"insecure to the proxy":      {Config{URL: "http://127.0.0.1", TLS: TLS{Insecure: true}, HTTPProxy: "https://127.0.0.1"}, "CERTIFICATES ARE NOT CHECKED"},
		"proxy":                      {Config{URL: "http://127.0.0.1", HTTPProxy: "http://u:hush@p:3128"}, "cuts end at the proxy p:3128:"},
		"HTTP/2":                     {Config{URL: "http://example.com", HTTP: "2"}, "cuts fall between HTTP/2 frames"},
		"socket":                     {Config{URL: "http+unix:///x"}, "rst looks like fin"},
		"token in the clear":         {Config{URL: "http://example.com", Token: Secret{Env: "A"}}, "the credential travels unencrypted"},
		"token on this machine":      {Config{URL: "http://localhost", Token: Secret{Env: "A"}}, ""},
		"token over TLS":             {Config{URL: "https://example.com", Token: Secret{Env: "A"}}, ""},
		"client secret in the clear": {Config{URL: "https://example.com", OAuth: OAuth{TokenURL: "http://example.com", ClientID: "c", ClientSecret: Secret{Env: "A"}}}, "the client secret travels unencrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.config.Getenv = func(n string) string {
				if n == "A" {
					return token(n)
				}
				return ""
			}
			e := made(t, tt.config)
			switch notes := e.Notes(); {
			case tt.says == "" && len(notes) > 0, tt.says != "" && len(notes) == 0:
				t.Errorf("notes %q", notes)
			case tt.says != "":
				refused(t, noteError(notes[0]), tt.says)
			}
		})
	}
}

// noteError lets a note be looked at like an error.
type noteError string

func (e noteError) Error() string { return string(e) }

func TestGuardLooksAtTheProxyToo(t *testing.T) {
	for url, want := range map[string]bool{"http://127.0.0.1:1": true, "http://elsewhere:1": false} {
		if e := made(t, Config{URL: "http://localhost/mcp", HTTPProxy: url}); e.Local() != want {
			t.Errorf("through %s: local %v", url, e.Local())
		}
	}
}
