package lab

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gapless-dev/gapless/profiles"
)

// withheld stands for what is secret.
const withheld = "…"

// assignment is a variable that a command line sets for its command.
var assignment = regexp.MustCompile(`\b([A-Za-z_][A-Za-z0-9_]*)=('[^']*'|"[^"]*"|[^\s'";]+)`)

// Withhold takes what may be secret out of the way to a target: the values of headers
// and of variables that its command sets, the password of a proxy, and those of a query. What is left can be written down.
func Withhold(t profiles.Target) profiles.Target {
	t.Headers = maps.Clone(t.Headers)
	for name := range t.Headers {
		t.Headers[name] = withheld
	}
	if u, err := url.Parse(t.HTTPProxy); err == nil && u.User != nil {
		u.User = nil
		t.HTTPProxy = strings.Replace(u.String(), "://", "://"+withheld+"@", 1)
	}
	t.Exec = assignment.ReplaceAllString(t.Exec, "${1}="+withheld)
	if e, err := NewEndpoint(profiles.Target{URL: t.URL}, nil); err == nil {
		t.URL = e.Shown()
	}
	return t
}

// Lacking says what a saved run does not know of the way to its target, since it was
// withheld, and that flags have not given again.
func Lacking(t profiles.Target) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if t.Headers[name] == withheld {
			all = append(all, fmt.Errorf("the saved run does not hold the value of header %s: give it again with -H", name))
		}
	}
	if strings.Contains(t.Exec, "="+withheld) {
		all = append(all, errors.New("the saved run does not hold the variables of the command: give it again with --exec"))
	}
	if strings.Contains(t.HTTPProxy, withheld) {
		all = append(all, errors.New("the saved run does not hold the password of the HTTP proxy: give it again with --http-proxy"))
	}
	if strings.Contains(t.URL, withheld) {
		all = append(all, errors.New("the saved run does not hold the whole URL of the target: give it again with --target"))
	}
	return errors.Join(all...)
}
