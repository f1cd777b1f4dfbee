package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gapless-dev/gapless/profiles"
)

// reachOverrides are the flags that say how an endpoint is reached. They are shared by
// all commands that talk to one.
func reachOverrides() []override {
	return []override{
		{"token-env", "NAME", "the environment variable that holds the bearer token", "target.token",
			func(p *profiles.Profile, v string) error { p.Target.Token = profiles.Secret{Env: v}; return nil }},
		{"token-file", "FILE", "the file that holds the bearer token", "target.token",
			func(p *profiles.Profile, v string) error { p.Target.Token = profiles.Secret{File: v}; return nil }},
		{"ca-file", "FILE", "certificates (PEM) to trust besides the system's", "target.tls",
			func(p *profiles.Profile, v string) error { p.Target.TLS.CA = v; return nil }},
		{"http-proxy", "URL", "go through this HTTP proxy; none: not even the one of HTTPS_PROXY", "target.http_proxy",
			func(p *profiles.Profile, v string) error { p.Target.HTTPProxy = v; return nil }},
	}
}

// addReachFlags declares them all on a command that is not run.
func addReachFlags(cmd *cobra.Command) {
	for _, o := range reachOverrides() {
		o.declare(cmd)
	}
	addReachSwitches(cmd)
}

// addReachSwitches declares those that are no plain texts.
func addReachSwitches(cmd *cobra.Command) {
	cmd.Flags().StringArrayP("header", "H", nil, "a header of every request, as `'K: V'`; repeatable")
	cmd.Flags().Bool("insecure", false, "do not check the certificate of the target: anybody could be answering")
	cmd.Flags().Bool("http2", false, "speak HTTP/2 (default: HTTP/1.1, where cuts are exact, unless the target speaks 2 alone)")
}

// applyReach puts the flags of [addReachFlags] into p.
func applyReach(cmd *cobra.Command, p *profiles.Profile) error {
	var complaints []error
	for _, o := range reachOverrides() {
		switch v := cmd.Flags().Lookup(o.name).Value.String(); {
		case !cmd.Flags().Changed(o.name):
		case v == "":
			complaints = append(complaints, fmt.Errorf("--%s: the value is empty", o.name))
		default:
			complaints = append(complaints, o.set(p, v))
		}
	}
	insecure, err := cmd.Flags().GetBool("insecure")
	p.Target.TLS.Insecure = p.Target.TLS.Insecure || insecure
	return errors.Join(errors.Join(complaints...), err, setHTTP2(cmd, &p.Target), setHeaders(cmd, &p.Target))
}

func setHTTP2(cmd *cobra.Command, t *profiles.Target) error {
	on, err := cmd.Flags().GetBool("http2")
	if on {
		t.HTTP = "2"
	}
	return err
}

func setHeaders(cmd *cobra.Command, t *profiles.Target) error {
	given, err := cmd.Flags().GetStringArray("header")
	headers := maps.Clone(t.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	for i, s := range given {
		name, value, ok := strings.Cut(s, ":")
		if !ok || !isToken(name) || strings.ContainsFunc(value, isControl) { // the value may be a secret: it is not repeated
			err = errors.Join(err, fmt.Errorf("number %d is not of the form 'Name: value', in one line", i+1))
			continue
		}
		if ours := strings.ToLower(name); slices.Contains(ourHeaders(), ours) {
			err = errors.Join(err, fmt.Errorf("%s is set by gapless itself", ours))
			continue
		}
		headers[name] = strings.TrimSpace(value)
	}
	t.Headers = headers
	return err
}

// ourHeaders are those that the exchange itself needs.
func ourHeaders() []string {
	return []string{
		"host", "content-length", "transfer-encoding", "connection", "accept", "content-type",
		"mcp-session-id", "mcp-protocol-version", "last-event-id",
	}
}

// isToken tells whether s can name a header (RFC 9110 §5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
