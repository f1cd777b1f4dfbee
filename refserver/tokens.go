package refserver

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// Bounds of a file of tokens. All tokens are compared with each one that comes.
const (
	tokenFileBytes = 1 << 20
	tokenEntries   = 1000
	tokenShortest  = 16 // characters; a shorter one could be guessed
	tokenLongest   = 4096
	principalBytes = 128
)

// TokensFromFile returns a verifier for [Config.Verifier] that knows the tokens of a
// file; see [ReadTokens]. The file is read once: a change needs a new start.
//
// Like ssh with a private key, it refuses a file that users other than its owner and
// group have access to, or that the group may write: each of them could act as any
// principal, and nobody reads a warning. The group may read, since that is how
// containers are given secrets. Windows has no such modes, and no such check.
func TokensFromFile(path string) (auth.TokenVerifier, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, fmt.Errorf("tokens: %s is not a regular file", path)
	case runtime.GOOS != "windows" && mode.Perm()&0o027 != 0:
		return nil, fmt.Errorf("tokens: %s has mode %#o, so others can get at the tokens in it: chmod 600 %s", path, mode.Perm(), path)
	}
	verifier, err := ReadTokens(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return verifier, nil
}

// knownToken is a token and whose it is. Only the digest is kept.
type knownToken struct {
	digest    [sha256.Size]byte
	principal string
}

// ReadTokens returns a verifier that knows the tokens of a text. Each line holds the
// name of a principal, blanks, and a token; blank lines and lines that begin with # are
// skipped. A principal may have several tokens, and a token has one principal. Names
// have 1 to 128 bytes of visible ASCII, tokens 16 to 4096 characters of RFC 6750's
// b64token; there are at most 1,000 of them in 1 MiB.
//
// A token that comes is compared with all of them, digest by digest, in constant time:
// how long it takes tells nothing. They do not expire, and have no scopes. No error
// quotes the text.
func ReadTokens(text io.Reader) (auth.TokenVerifier, error) {
	limited := &io.LimitedReader{R: text, N: tokenFileBytes + 1}
	lines := bufio.NewScanner(limited)
	var known []knownToken
	seen := map[[sha256.Size]byte]bool{}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		entry, err := readToken(line)
		if err == nil && seen[entry.digest] {
			err = errors.New("the token was there before")
		}
		if err != nil {
			return nil, fmt.Errorf("tokens: line %d: %w", n, err)
		}
		seen[entry.digest] = true
		known = append(known, entry)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, errors.New("tokens: a line is too long")
	case err != nil:
		return nil, fmt.Errorf("tokens: %w", err)
	case limited.N <= 0:
		return nil, errors.New("tokens: more than 1 MiB")
	case len(known) == 0:
		return nil, errors.New("tokens: there is none; a line is: principal token")
	case len(known) > tokenEntries:
		return nil, fmt.Errorf("tokens: %d are more than %d", len(known), tokenEntries)
	}
	return verifierOf(known), nil
}

func readToken(line string) (knownToken, error) {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return knownToken{}, errors.New("it is not: principal token")
	}
	principal, token := fields[0], fields[1]
	if len(principal) > principalBytes || strings.ContainsFunc(principal, func(c rune) bool { return c < '!' || c > '~' }) {
		return knownToken{}, fmt.Errorf("the name of the principal is not 1 to %d bytes of visible ASCII", principalBytes)
	}
	if len(token) < tokenShortest || len(token) > tokenLongest || !isB64Token(token) {
		return knownToken{}, fmt.Errorf("the token is not %d to %d letters, digits and -._~+/, with = at its end", tokenShortest, tokenLongest)
	}
	return knownToken{sha256.Sum256([]byte(token)), principal}, nil
}

func isB64Token(token string) bool {
	core := strings.TrimRight(token, "=")
	return core != "" && !strings.ContainsFunc(core, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+/", c))
	})
}

func verifierOf(known []knownToken) auth.TokenVerifier {
	return func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		digest, found := sha256.Sum256([]byte(token)), -1
		for i := range known {
			same := subtle.ConstantTimeCompare(digest[:], known[i].digest[:])
			found = subtle.ConstantTimeSelect(same, i, found)
		}
		if found < 0 {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: known[found].principal}, nil
	}
}
