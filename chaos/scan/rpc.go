package scan

import "bytes"

// rpc tells a JSON-RPC response from any other message by the keys of its outermost
// object, as the text passes. It does not validate: what is not JSON is a message
// to the fault that cuts it, and the judge's business otherwise. Keys written with
// escapes are not recognised.
type rpc struct {
	depth  int32
	keys   key
	name   [6]byte
	length uint8
	// settled: no later byte can change the answer.
	settled bool
	inText  bool // inside a string
	escaped bool // behind a backslash
	isKey   bool // that string is a key of the outermost object
	wantKey bool // the next string is one
	// The next string, or the one at hand, is the value of "method"; matched is how much of
	// framing it has repeated, and is of use only then.
	wantMethod, isMethod bool
	matched              uint8
}

type key uint8

const (
	keyID key = 1 << iota
	keyAnswer
	keyMethod
	keyFraming // the method says that the message frames a stream
)

// framing begins the methods of the draft of resumable streams that tell the client of a
// stream (create, end) and are no messages of it.
const framing = "notifications/stream/"

// usual is how nearly every notification begins: a shortcut past its first keys.
const usual = `{"jsonrpc":"2.0","method":`

// textWindow bounds one search for the end of a string, so that text full of
// escapes is not searched over and over.
const textWindow = 256

// response says what the keys seen so far amount to.
func (r *rpc) response() bool { return r.keys == keyID|keyAnswer }

// frames tells the notifications that frame a stream.
func (r *rpc) frames() bool { return r.keys&keyFraming != 0 }

func (r *rpc) feed(p []byte) {
	if r.depth == 0 && !r.settled && len(p) > len(usual)+len(framing) && string(p[:len(usual)]) == usual && p[len(usual)] == '"' {
		r.keys, r.settled = keyMethod, true
		if string(p[len(usual)+1:][:len(framing)]) == framing {
			r.keys |= keyFraming
		}
		return
	}
	for i := 0; i < len(p) && !r.settled; {
		if r.inText {
			i += r.text(p[i:])
			continue
		}
		c := p[i]
		i++
		switch c {
		case '"':
			r.inText = true
			r.isKey = r.wantKey
			r.isMethod, r.matched = r.wantMethod, 0
			r.length = 0
			r.settled = r.depth == 0
		case '{', '[':
			r.settled = r.depth == 0 && c == '[' || r.wantMethod
			r.depth++
			r.wantKey = r.depth == 1
		case '}', ']':
			r.depth--
			r.settled = r.depth <= 0
		case ',':
			r.wantKey = r.depth == 1
			r.settled = r.wantMethod
		case ':':
			r.wantKey = false
		}
	}
}

// text consumes bytes of a string up to its closing quote or one backslash.
func (r *rpc) text(p []byte) int {
	if r.escaped {
		r.escaped = false
		return 1
	}
	n := textEnd(p)
	if r.isKey {
		r.spell(p[:n])
	}
	if r.isMethod {
		r.match(p[:n])
		if r.settled {
			return n
		}
	}
	if n == len(p) {
		return n
	}
	if r.isMethod { // it ended before it could match
		r.settled = true
		return n
	}
	if p[n] == '\\' {
		r.escaped = true
		r.length = uint8(len(r.name)) + 1
	} else {
		r.inText = false
		if r.isKey {
			r.keyDone()
		}
	}
	return n + 1
}

// textEnd returns the index of the first quote or backslash of p, or its length. Most
// strings that matter are shorter than a search is worth.
func textEnd(p []byte) int {
	for i, c := range p[:min(len(p), 16)] {
		if c == '"' || c == '\\' {
			return i
		}
	}
	for n := min(len(p), 16); n < len(p); n += textWindow {
		w := p[n:min(len(p), n+textWindow)]
		i := bytes.IndexByte(w, '"')
		if i < 0 {
			i = len(w)
		}
		if j := bytes.IndexByte(w[:i], '\\'); j >= 0 {
			i = j
		}
		if i < len(w) {
			return n + i
		}
	}
	return len(p)
}

func (r *rpc) spell(p []byte) {
	if int(r.length)+len(p) > len(r.name) {
		r.length = uint8(len(r.name)) + 1
		return
	}
	r.length += uint8(copy(r.name[r.length:], p))
}

func (r *rpc) keyDone() {
	if int(r.length) > len(r.name) {
		return
	}
	switch string(r.name[:r.length]) {
	case "id":
		r.keys |= keyID
	case "result", "error":
		r.keys |= keyAnswer
	case "method":
		r.keys |= keyMethod // a message, whatever else it holds
		r.wantMethod = true
	}
}

// match compares the method with framing, and settles the matter once it differs or is as
// long. A method with escapes is not recognised.
func (r *rpc) match(p []byte) {
	n := min(len(p), len(framing)-int(r.matched))
	same := string(p[:n]) == framing[r.matched:int(r.matched)+n]
	r.matched += uint8(n)
	if !same {
		r.settled = true
	} else if int(r.matched) == len(framing) {
		r.keys |= keyFraming
		r.settled = true
	}
}
