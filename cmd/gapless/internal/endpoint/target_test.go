package endpoint

import (
	"strings"
	"testing"
)

func TestTargets(t *testing.T) {
	tests := []struct {
		raw, url, addr, shown string // shown "": as raw
		local                 bool
	}{
		{"http://127.0.0.1:8080/mcp", "http://127.0.0.1:8080/mcp", "127.0.0.1:8080", "", true},
		{"http://example.com", "http://example.com/", "example.com:80", "", false},
		{"https://example.com/mcp", "http://example.com/mcp", "example.com:443", "", false},
		{"https://example.com:443/mcp", "http://example.com/mcp", "example.com:443", "", false},
		{"https://example.com:80/mcp", "http://example.com:80/mcp", "example.com:80", "", false},
		{"HTTPS://Example.com/a%20b", "http://Example.com/a%20b", "Example.com:443", "", false},
		{"http://[::1]:81/mcp", "http://[::1]:81/mcp", "[::1]:81", "", true},
		{"http://[fe80::1%25eth0]:81/mcp", "http://[fe80::1]:81/mcp", "[fe80::1%eth0]:81", "", false},
		{"http://[::ffff:127.0.0.1]/", "http://[::ffff:127.0.0.1]/", "[::ffff:127.0.0.1]:80", "", true},
		{"http://localhost/mcp", "http://localhost/mcp", "localhost:80", "", true},
		{"http://a.LOCALHOST./mcp", "http://a.LOCALHOST./mcp", "a.LOCALHOST.:80", "", true},
		{"http://localhost.example.com/", "http://localhost.example.com/", "localhost.example.com:80", "", false},
		{"http://notlocalhost/", "http://notlocalhost/", "notlocalhost:80", "", false},
		{"http://127.0.0.1.example.com/", "http://127.0.0.1.example.com/", "127.0.0.1.example.com:80", "", false},
		{"http://mcp_server:8080/", "http://mcp_server:8080/", "mcp_server:8080", "", false},
		{"http://bücher.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example:80", "", false},
		{"http://h/mcp?tenant=a&x", "http://h/mcp?tenant=a&x", "h:80", "", false},
		{"http://h/mcp?api_key=hush&b=2", "http://h/mcp?api_key=hush&b=2", "h:80", "http://h/mcp?api_key=…&b=2", false},
		{"http://h/mcp?a=0123456789abcdef0&b", "http://h/mcp?a=0123456789abcdef0&b", "h:80", "http://h/mcp?a=…&b", false},
		{"http://h/mcp?0123456789abcdef0", "http://h/mcp?0123456789abcdef0", "h:80", "http://h/mcp?…", false},
		{"http+unix:///run/x.sock", "http://localhost/mcp", "/run/x.sock", "", true},
		{"http+unix:///run/x.sock:/other/path?a=1", "http://localhost/other/path?a=1", "/run/x.sock", "", true},
		{"HTTP+Unix:///run/my%20x.sock", "http://localhost/mcp", "/run/my x.sock", "http+unix:///run/my%20x.sock", true},
		{"http+unix://%2Frun%2Fx.sock/api?token=hush", "http://localhost/api?token=hush", "/run/x.sock", "http+unix://%2Frun%2Fx.sock/api?token=…", true},
		{"http+unix://%2frun%2fx.sock", "http://localhost/mcp", "/run/x.sock", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.raw, func(t *testing.T) {
			e, err := New(Config{URL: tt.raw, HTTPProxy: "none"})
			if err != nil {
				t.Fatal(err)
			}
			addr := e.target.socket
			if addr == "" {
				addr = e.target.addr()
			}
			if tt.shown == "" {
				tt.shown = tt.raw
			}
			if e.URL() != tt.url || addr != tt.addr || e.Local() != tt.local || e.Shown() != tt.shown {
				t.Errorf("URL %s, address %s, local %v, shown %s", e.URL(), addr, e.Local(), e.Shown())
			}
		})
	}
}

func TestBadTargets(t *testing.T) {
	for raw, says := range map[string]string{
		"":                            "is empty",
		"localhost:80/mcp":            "names no scheme",
		"//h/mcp":                     "names no scheme",
		"127.0.0.1:80/mcp":            "is not a URL",
		"ftp://h/mcp":                 `unknown scheme "ftp"`,
		"unix:///run/x":               `unknown scheme "unix"`,
		"http://user:hush@h/mcp":      "give it in a header or token",
		"http://hush@h/mcp":           "give it in a header or token",
		"http+unix://u:hush@%2Fx/mcp": "give it in a header or token",
		"http://h/mcp#hush":           "fragment",
		"http://h/a b":                "blank",
		"http://h/a\r\nX: hush":       "blank",
		"http://h:hush/":              "port that is no number",
		"http://h:0/":                 "port outside",
		"http://h:65536/":             "port outside",
		"http://h:/":                  "names no port",
		"http:///mcp":                 "names no host",
		"http://:80/mcp":              "names no host",
		"http://[hush]/mcp":           "is not a URL",
		"http://[fe80::1%25]/mcp":     "is not a URL",
		"http://h/%zz":                "hexadecimal",
		"http://a*b/":                 "no name and no address",
		"http://\u2028/":              "no name and no address",
		"http+unix://":                "no absolute path of a socket",
		"http+unix:///":               "no absolute path of a socket",
		"http+unix://x.sock/mcp":      "no absolute path of a socket",
		"http+unix:///run/%zz":        "hexadecimal",
		"http+unix:///a:/%zz":         "bad path behind the socket",
		"http+unix:///" + longText("a", 99) + longText("b", 99): "names a socket by a path of 199 bytes",
	} {
		_, err := New(Config{URL: raw})
		t.Run(raw, func(t *testing.T) { refused(t, err, "target.url", says) })
	}
}

func longText(s string, n int) string { return strings.Repeat(s, n) }

func FuzzTarget(f *testing.F) {
	f.Add("http://h:1/p?q=1")
	f.Add("http+unix:///a:/b")
	f.Add("https://[fe80::1%25a]:2/")
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := parseTarget(raw)
		if err != nil {
			return
		}
		if strings.ContainsAny(target.authority+target.path, " \r\n") || target.authority == "" || !strings.HasPrefix(target.path, "/") {
			t.Errorf("authority %q, path %q", target.authority, target.path)
		}
	})
}
