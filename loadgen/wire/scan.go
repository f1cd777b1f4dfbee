package wire

// Kind is what a JSON-RPC message is.
type Kind uint8

// Kinds of messages.
const (
	KindNone         Kind = iota // no message: Illegal says why
	KindRequest                  // method and id
	KindNotification             // method without id
	KindResult                   // id and result
	KindError                    // error, with or without id
	KindBatch                    // an array; its elements are not looked at
)

// A Message is what one pass over a JSON-RPC message found. Its slices point into the
// scanned data, or into memory of its own where escapes had to be resolved; both are
// valid until the next Scan. A Message may be used again.
type Message struct {
	Kind   Kind
	Method []byte
	ID     []byte // as written: digits, or a string with its quotes; nil when absent or null
	Token  []byte // params.progressToken: the string, or a number as written
	// Mark is the string result._meta["gapless/call"]: whose response this is.
	Mark            []byte
	Progress, Total float64 // of params
	TokenText       bool    // Token is a string
	HasProgress     bool
	HasTotal        bool
	Loose           bool // white space outside strings
	Illegal         Illegal

	seen  member
	shape bool   // a member of the envelope has a type it must not have
	text  []byte // what strings with escapes mean
}

// member is a set of keys that decide the meaning of a message.
type member uint16

const (
	memberVersion member = 1 << iota
	memberID
	memberMethod
	memberParams
	memberResult
	memberError
	memberToken
	memberProgress
	memberTotal
	memberMeta
	memberMark
	memberCode
	memberMessage
)

// callMark is the key under which our own server names the call a result belongs to.
const callMark = "gapless/call"

// textKept is how much memory for resolved escapes a Message keeps for the next one.
const textKept = 4 << 10

// Scan reads one JSON-RPC 2.0 message in a single pass: that it is JSON (RFC 8259) in
// UTF-8 and has the shape of a message, and what it says of itself. It allocates
// nothing unless one of the strings in Message contains an escape. Of a key given twice
// the last one counts, and IllegalDupKeys says so.
func Scan(data []byte, m *Message) { m.scan(data, nil) }

// scan is Scan that also looks for what w wants, if it is not nil.
func (m *Message) scan(data []byte, w *finder) {
	text := m.text[:0]
	if cap(text) > textKept {
		text = nil
	}
	*m = Message{text: text}
	l := lexer{b: data}
	batch := false
	switch l.peek() {
	case '{':
		l.i++
		m.envelope(&l, w)
	case '[':
		batch = true
		l.skip(0)
	default:
		l.skip(0)
		m.shape = true
	}
	if l.peek(); l.i != len(data) {
		l.fail()
	}
	m.Loose = l.loose
	if l.badUTF8 {
		m.Illegal |= IllegalUTF8
	}
	switch {
	case l.deep:
		m.Illegal |= IllegalSize
	case l.bad:
		m.Illegal |= IllegalJSON
	case batch:
		m.Kind = KindBatch
		m.Illegal |= IllegalBatch
	default:
		m.classify()
	}
}

// envelope reads the members of the message behind its brace.
func (m *Message) envelope(l *lexer, w *finder) {
	k, more := l.key(true)
	for ; more; k, more = l.key(false) {
		switch string(m.resolve(l, k)) {
		case "jsonrpc":
			m.once(memberVersion)
			if version, ok := m.readString(l); !ok || string(version) != "2.0" {
				m.shape = true
			}
		case "id":
			m.once(memberID)
			m.readID(l)
		case "method":
			m.once(memberMethod)
			method, ok := m.readString(l)
			m.Method, m.shape = method, m.shape || !ok
		case "params":
			m.once(memberParams)
			m.readParams(l, w)
		case "result":
			m.once(memberResult)
			m.readResult(l)
		case "error":
			m.once(memberError)
			m.readError(l)
		default:
			l.skip(1)
		}
	}
}

// once notes a key and that it came before.
func (m *Message) once(k member) {
	if m.seen&k != 0 {
		m.Illegal |= IllegalDupKeys
	}
	m.seen |= k
}

// readString reads a value that should be a string; ok is false when it is another.
func (m *Message) readString(l *lexer) (value []byte, ok bool) {
	if l.peek() != '"' {
		l.skip(1)
		return nil, false
	}
	return m.resolve(l, l.str()), true
}

// resolve returns what a string means.
func (m *Message) resolve(l *lexer, t text) []byte {
	if l.bad {
		return nil
	}
	raw := l.b[t.start:t.end:t.end]
	if !t.escaped {
		return raw
	}
	from := len(m.text)
	m.text = unescape(m.text, raw)
	return m.text[from:len(m.text):len(m.text)]
}
