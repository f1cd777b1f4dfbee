package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// maxSecret bounds a secret in bytes: a header field is not much longer.
	maxSecret = 16 << 10
	// commandTimeout bounds one run of a command, commandAge the time until it is run again.
	commandTimeout = 10 * time.Second
	commandAge     = time.Minute
)

// given tells whether anything is named.
func (s Secret) given() bool { return s.Env != "" || s.File != "" || len(s.Command) > 0 }

// source returns what gets the secret. Nothing is got before it is asked but what can be
// checked at once: a variable and a file. setting is its name in errors.
func (s Secret) source(setting string, getenv func(string) string) (func(context.Context) (string, error), error) {
	switch {
	case s.Env != "" && s.File != "", s.Env != "" && len(s.Command) > 0, s.File != "" && len(s.Command) > 0:
		return nil, fmt.Errorf("%s: names more than one of env, file and command; keep one", setting)
	case s.Env != "":
		value := getenv(s.Env)
		if value == "" {
			return nil, fmt.Errorf("%s.env: the variable %s is empty or not set", setting, s.Env)
		}
		value, err := clean(value)
		if err != nil {
			return nil, fmt.Errorf("%s.env: the variable %s %w", setting, s.Env, err)
		}
		return func(context.Context) (string, error) { return value, nil }, nil
	case s.File != "":
		f := &secretFile{setting: setting + ".file", name: s.File}
		_, err := f.get(context.Background())
		return f.get, err
	case len(s.Command) > 0:
		if s.Command[0] == "" {
			return nil, fmt.Errorf("%s.command: the name of the program is empty", setting)
		}
		c := &cached{fetch: func(ctx context.Context) (credential, error) { return s.run(ctx, setting+".command") }}
		return c.get, nil
	}
	return nil, fmt.Errorf("%s: names none of env, file and command", setting)
}

// clean trims a secret and refuses what no header field can carry as it is.
func clean(s string) (string, error) {
	s = strings.TrimSpace(s)
	switch i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }); {
	case s == "":
		return "", errors.New("holds nothing but blanks")
	case len(s) > maxSecret:
		return "", fmt.Errorf("holds more than %d bytes", maxSecret)
	case i >= 0:
		return "", fmt.Errorf("holds a line end, control character or letter outside ASCII at byte %d, which no header field can carry", i)
	}
	return s, nil
}

// secretFile is a secret in a file that may be replaced.
type secretFile struct {
	setting, name string

	mu    sync.Mutex
	value string
	mtime time.Time
	size  int64
}

// get reads the file when it has changed. While a replacement cannot be read or is not
// written yet, what it held before still stands.
func (f *secretFile) get(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.name)
	if err == nil && f.value != "" && info.ModTime().Equal(f.mtime) && info.Size() == f.size {
		return f.value, nil
	}
	var value string
	if err == nil {
		value, err = readSecret(f.name)
	}
	switch {
	case err == nil:
		f.value, f.mtime, f.size = value, info.ModTime(), info.Size()
	case f.value == "":
		return "", fmt.Errorf("%s: %w", f.setting, err)
	}
	return f.value, nil
}

func readSecret(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+2)) // a line end is not counted
	if err != nil {
		return "", err
	}
	value, err := clean(string(text))
	if err != nil {
		return "", fmt.Errorf("%s %w", name, err)
	}
	return value, nil
}

// run runs the command once. Its arguments and what it prints may be secret, so that
// errors name the program only.
func (s Secret) run(ctx context.Context, setting string) (credential, error) {
	name := s.Command[0]
	limited, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(limited, name, s.Command[1:]...)
	lead(cmd)
	cmd.WaitDelay = time.Second // what it has started may keep its stdout open
	out := &firstLine{}
	cmd.Stdout = out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return credential{}, fmt.Errorf("%s: %w", setting, ctx.Err())
	case limited.Err() != nil:
		return credential{}, fmt.Errorf("%s: %s took longer than %v", setting, name, commandTimeout)
	case errors.As(err, &exit):
		return credential{}, fmt.Errorf("%s: %s failed (%v); run it by hand to see why", setting, name, exit)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return credential{}, fmt.Errorf("%s: %s: %w", setting, name, plainExec(err))
	}
	value, err := clean(string(out.text))
	if err != nil {
		return credential{}, fmt.Errorf("%s: the first line that %s prints %w", setting, name, err)
	}
	now := time.Now()
	return credential{value: value, renew: now.Add(commandAge), until: now.Add(2 * commandAge)}, nil
}

// plainExec leaves out the name that the caller has said.
func plainExec(err error) error {
	var e *exec.Error
	var path *os.PathError
	switch {
	case errors.As(err, &e):
		return e.Err
	case errors.As(err, &path):
		return path.Err
	}
	return err
}

// firstLine keeps the first line written to it, and one byte more than a secret may have.
type firstLine struct {
	text []byte
	over bool
}

// Write takes everything, so that the writer is not held up or killed.
func (f *firstLine) Write(p []byte) (int, error) {
	line, _, ended := strings.Cut(string(p), "\n")
	if room := maxSecret + 1 - len(f.text); !f.over {
		f.text = append(f.text, line[:min(len(line), room)]...)
	}
	f.over = f.over || ended
	return len(p), nil
}
