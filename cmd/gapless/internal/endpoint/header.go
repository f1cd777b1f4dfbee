package endpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkHeader complains about fields that could not be sent as they are meant. Values are
// never shown.
func checkHeader(fields map[string]string, credential bool) error {
	var wrong error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch strings.ToLower(name) {
		case "host", "content-length", "transfer-encoding", "connection":
			wrong = errors.Join(wrong, fmt.Errorf("target.headers: %s is set by gapless itself", name))
			continue
		case "proxy-authorization":
			wrong = errors.Join(wrong, errors.New("target.headers: Proxy-Authorization would reach the target; give user and password in the URL of target.http_proxy"))
			continue
		case "authorization":
			if credential {
				wrong = errors.Join(wrong, errors.New("target.headers: Authorization is given and target.token or target.oauth too; keep one"))
			}
		}
		if !isFieldName(name) {
			wrong = errors.Join(wrong, fmt.Errorf("target.headers: %q is no name of a field", cut(name)))
		} else if i := strings.IndexFunc(fields[name], controls); i >= 0 {
			wrong = errors.Join(wrong, fmt.Errorf("target.headers: the value of %s holds a control character at byte %d", name, i))
		}
	}
	return wrong
}

// controls tells what a field value must not hold: a line end in it would begin another
// field.
func controls(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func isFieldName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
