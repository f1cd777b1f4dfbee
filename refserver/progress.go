package refserver

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// progress builds the notifications of one call. Only the digits of the number
// change from one to the next, so the bytes around them are made once for each
// length of the number.
type progress struct {
	token, total string
	size         int    // wanted size of a message
	wire         []byte // "data: " message "\n\n"
	digits       int    // length of the number that wire has room for
	at           int    // place of the number in wire
}

func newProgress(token any, total, size int) *progress {
	return &progress{token: encode(token), total: strconv.Itoa(total), size: size}
}

const (
	dataPrefix = "data: "
	dataSuffix = "\n\n"

	progressHead  = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"`
	progressTail  = `","progress":`
	progressToken = `,"progressToken":`
	progressTotal = `,"total":`
	progressEnd   = `}}`
)

// frame returns message k as an event without its id line, and within it the message
// alone: canonical JSON, with sorted keys and no white space. Both are valid until the
// next call.
func (p *progress) frame(k int) (wire, message []byte) {
	var scratch [20]byte
	number := strconv.AppendInt(scratch[:0], int64(k), 10)
	if len(number) != p.digits {
		p.rebuild(len(number))
	}
	copy(p.wire[p.at:], number)
	return p.wire, p.wire[len(dataPrefix) : len(p.wire)-len(dataSuffix)]
}

func (p *progress) rebuild(digits int) {
	p.digits = digits
	fixed := len(progressHead) + len(progressTail) + digits + len(progressToken) + len(p.token) +
		len(progressTotal) + len(p.total) + len(progressEnd)
	b := append(p.wire[:0], dataPrefix...)
	b = append(b, progressHead...)
	b = appendFiller(b, max(p.size-fixed, 0))
	b = append(b, progressTail...)
	p.at = len(b)
	b = append(b, make([]byte, digits)...)
	b = append(b, progressToken...)
	b = append(b, p.token...)
	b = append(b, progressTotal...)
	b = append(b, p.total...)
	b = append(b, progressEnd...)
	p.wire = append(b, dataSuffix...)
}

// fillerUnits are what the filler of a message is made of: each is whole in itself,
// as JSON and as UTF-8, and written in the shortest way JSON has for it. They are
// what careless code breaks: escapes, characters of two to four bytes, a line
// separator that is none in JSON, and text that looks like SSE.
func fillerUnits() []string {
	return []string{
		"gap ", "é", `\n`, "→ ", `\"`, "data: ", "🙂", `\\`, "id: 7", `\t`, "\u2028", "less ", "ß", ": ",
	}
}

// appendFiller appends exactly n bytes that may stand inside a JSON string.
func appendFiller(b []byte, n int) []byte {
	units := fillerUnits()
	for i := 0; n > 0; i++ {
		unit := units[i%len(units)]
		if len(unit) > n {
			return append(b, bytes.Repeat([]byte{'x'}, n)...)
		}
		b = append(b, unit...)
		n -= len(unit)
	}
	return b
}

// plainFiller returns n bytes of text, which the SDK will write as JSON.
func plainFiller(n int) string {
	return string(bytes.Repeat([]byte("gapless "), n/8+1)[:n])
}

// encode returns a token, which is a string or a number, as JSON in its shortest form.
func encode(token any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(token); err != nil {
		return `""` // not a token at all; MCP knows strings and numbers only
	}
	return string(bytes.TrimRight(b.Bytes(), "\n"))
}
