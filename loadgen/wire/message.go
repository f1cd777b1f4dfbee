package wire

import (
	"math"
	"strconv"
)

// IDInt returns the id as an integer, when it is one that fits.
func (m *Message) IDInt() (int64, bool) {
	if len(m.ID) == 0 || len(m.ID) > 20 || m.ID[0] == '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(m.ID), 10, 64)
	return n, err == nil
}

// IsProgress tells a progress notification.
func (m *Message) IsProgress() bool {
	return m.Kind == KindNotification && string(m.Method) == "notifications/progress"
}

// classify decides the kind, and whether the members that are there make one message
// (JSON-RPC 2.0 §4 and §5; MCP allows no null id but in an error that belongs to no request).
func (m *Message) classify() {
	const kinds = memberMethod | memberResult | memberError
	hasID := m.ID != nil
	nullID := !hasID && m.seen&memberID != 0
	switch m.seen & kinds {
	case memberMethod:
		m.Kind = KindNotification
		if hasID {
			m.Kind = KindRequest
		}
		m.shape = m.shape || nullID
	case memberResult:
		m.Kind = KindResult
		m.shape = m.shape || !hasID
	case memberError:
		m.Kind = KindError
	default:
		m.shape = true
	}
	if m.shape || m.seen&memberVersion == 0 {
		m.Kind = KindNone
		m.Illegal |= IllegalRPC
	}
}

// readID accepts strings, whole numbers and null; which of them may stand where is
// classify's.
func (m *Message) readID(l *lexer) {
	m.ID = nil
	switch c := l.peek(); {
	case c == '"':
		t := l.str()
		if !l.bad {
			m.ID = l.b[t.start-1 : t.end+1]
		}
	case c == '-' || '0' <= c && c <= '9':
		start, end, integer := l.number()
		if l.bad {
			return
		}
		m.ID = l.b[start:end]
		if !integer {
			f := parseFloat(m.ID)
			m.shape = m.shape || f != math.Trunc(f)
		}
	case c == 'n':
		l.word("null")
	default:
		m.shape = true
		l.skip(1)
	}
}

// open takes the brace of an object, or reads a value that is none.
func (l *lexer) open() bool {
	if l.accept('{') {
		return true
	}
	l.skip(1)
	return false
}

func (m *Message) readParams(l *lexer, w *finder) {
	m.forget(memberToken | memberProgress | memberTotal)
	m.Token, m.TokenText, m.HasProgress, m.HasTotal, m.Progress, m.Total = nil, false, false, false, 0, 0
	w.again()
	if c := l.peek(); c != '{' {
		m.shape = m.shape || c != '['
		m.readPositions(l, w)
		return
	}
	l.i++
	k, more := l.key(true)
	for ; more; k, more = l.key(false) {
		key := m.resolve(l, k)
		from, known := l.i, true
		switch string(key) {
		case "progressToken":
			m.once(memberToken)
			m.readToken(l)
		case "progress":
			m.once(memberProgress)
			m.Progress, m.HasProgress = readNumber(l)
		case "total":
			m.once(memberTotal)
			m.Total, m.HasTotal = readNumber(l)
		default:
			known = false
		}
		switch n := w.at(key); {
		case n != nil && !l.bad:
			l.i = from // a value that counts twice, and is short if it counts as what it is here
			w.value(m, l, n, 2)
		case !known:
			l.skip(2)
		}
	}
}

// readPositions reads params that are an array, or no params at all.
func (m *Message) readPositions(l *lexer, w *finder) {
	if w != nil && l.peek() == '[' {
		w.elements(m, l, &w.paths.root, 1)
		return
	}
	l.skip(1)
}

func (m *Message) readToken(l *lexer) {
	m.Token, m.TokenText = nil, false
	switch c := l.peek(); {
	case c == '"':
		m.Token, m.TokenText = m.resolve(l, l.str()), true
	case c == '-' || '0' <= c && c <= '9':
		start, end, _ := l.number()
		if !l.bad {
			m.Token = l.b[start:end]
		}
	default:
		l.skip(2)
	}
}

// readResult looks for the mark of the call; a result may otherwise be any value.
func (m *Message) readResult(l *lexer) {
	m.forget(memberMeta | memberMark)
	m.Mark = nil
	if !l.open() {
		return
	}
	k, more := l.key(true)
	for ; more; k, more = l.key(false) {
		if string(m.resolve(l, k)) != "_meta" {
			l.skip(2)
			continue
		}
		m.once(memberMeta)
		m.forget(memberMark)
		m.Mark = nil
		if !l.open() {
			continue
		}
		k, more := l.key(true)
		for ; more; k, more = l.key(false) {
			if string(m.resolve(l, k)) == callMark {
				m.once(memberMark)
				m.Mark, _ = m.readString(l)
			} else {
				l.skip(3)
			}
		}
	}
}

// readError checks that an error is an object with a whole code and a message
// (JSON-RPC 2.0 §5.1).
func (m *Message) readError(l *lexer) {
	m.forget(memberCode | memberMessage)
	if !l.open() {
		m.shape = true
		return
	}
	code, message := false, false
	k, more := l.key(true)
	for ; more; k, more = l.key(false) {
		switch string(m.resolve(l, k)) {
		case "code":
			m.once(memberCode)
			f, ok := readNumber(l)
			code = ok && f == math.Trunc(f)
		case "message":
			m.once(memberMessage)
			_, message = m.readString(l)
		default:
			l.skip(2)
		}
	}
	m.shape = m.shape || !code || !message
}

// forget drops keys of an object that a later one of the same name replaces.
func (m *Message) forget(keys member) { m.seen &^= keys }

// readNumber reads a value that should be a number; ok is false when it is another.
func readNumber(l *lexer) (f float64, ok bool) {
	if c := l.peek(); c != '-' && (c < '0' || c > '9') {
		l.skip(2)
		return 0, false
	}
	start, end, integer := l.number()
	if l.bad {
		return 0, false
	}
	s := l.b[start:end]
	if integer && len(s) <= 15 && s[0] != '-' {
		n := int64(0)
		for _, c := range s {
			n = n*10 + int64(c-'0')
		}
		return float64(n), true
	}
	return parseFloat(s), true
}

// parseFloat returns the nearest value; what no float64 holds becomes infinite.
func parseFloat(s []byte) float64 {
	f, _ := strconv.ParseFloat(string(s), 64)
	return f
}
