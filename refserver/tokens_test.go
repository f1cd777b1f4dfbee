package refserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/auth"
)

func TestReadTokens(t *testing.T) {
	secret := "s3cret-" + strings.Repeat("x", 20)
	tests := []struct{ name, text, err string }{
		{"one", "ann " + secret, ""},
		{"several, blanks, comments", "# who may\r\n\n  ann\t" + secret + "  \nann " + secret + "2\nbob " + secret + "==\n", ""},
		{"as long as may be", "ann " + strings.Repeat("x", 4096), ""},
		{"none", "# ann " + secret, "there is none"},
		{"no token", "ann", "line 1: it is not: principal token"},
		{"three words", "\nann " + secret + " x", "line 2: it is not"},
		{"as short as may be", "ann s3cret-too-short", ""},

		{"too short", "ann s3cret-tooshort", "line 1: the token is not 16"},
		{"too long", "ann " + strings.Repeat("x", 4097), "line 1: the token is not"},
		{"not a token", "ann s3cret/with\"a\"quote", "line 1: the token is not"},
		{"nothing but padding", "ann ================", "line 1: the token is not"},
		{"twice", "ann " + secret + "\nbob " + secret, "line 2: the token was there before"},
		{"name in another script", "änn " + secret, "line 1: the name"},
		{"name too long", strings.Repeat("n", 129) + " " + secret, "line 1: the name"},
		{"too many", many(1001), "1001 are more than 1000"},
		{"as many as may be", many(1000), ""},
		{"too big", strings.Repeat("# a comment\n", 100_000), "more than 1 MiB"},
		{"line too long", strings.Repeat("x", 70_000), "a line is too long"},
	}
	for _, tt := range tests {
		_, err := refserver.ReadTokens(strings.NewReader(tt.text))
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes the token: %v", tt.name, err)
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "p%d token-of-nobody-%d\n", i%7, i)
	}
	return b.String()
}

func TestReadTokens_FindsWhoseTokenItIs(t *testing.T) {
	verify, err := refserver.ReadTokens(strings.NewReader("ann " + annToken + "\nbob " + bobToken + "\nann " + annToken + "2\n"))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{
		annToken: "ann", bobToken: "bob", annToken + "2": "ann", annToken + "3": "", annToken[1:]: "", "": "", "ann": "", strings.ToUpper(annToken): "",
	} {
		info, err := verify(t.Context(), token, nil)
		if want == "" {
			if !errors.Is(err, auth.ErrInvalidToken) || token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("%q: %v %v", token, info, err)
			}
		} else if err != nil || info.UserID != want {
			t.Errorf("%q is of %v, %v", token, info, err)
		}
	}
}

func TestTokensFromFile_ThatOthersCanGetAt_IsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	if err := os.WriteFile(path, []byte("ann "+annToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Log("no modes to look at")
		return
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o440: true, 0o644: false, 0o604: false, 0o660: false, 0o602: false, 0o601: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := refserver.TokensFromFile(path)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	for _, p := range []string{dir, filepath.Join(dir, "missing")} {
		if _, err := refserver.TokensFromFile(p); err == nil {
			t.Errorf("%s was taken for a file of tokens", p)
		}
	}
}
