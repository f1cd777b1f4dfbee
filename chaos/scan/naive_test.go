package scan

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A second reading of an event stream, written for clearness and with the whole body
// in memory: it shares nothing with the scanner but the types it answers in.

// spot is a mark with the payload byte it lies before or behind.
type spot struct {
	at    int
	mark  Mark
	event Event
}

// textLine is one line of a body and the offset just behind the first byte of its end.
type textLine struct {
	text       string
	start, end int
}

// naiveLines splits at CR, LF and CRLF; what follows the last line end is left out,
// except for where it begins.
func naiveLines(body string) (lines []textLine, tail int) {
	start := 0
	for i := 0; i < len(body); i++ {
		if body[i] != '\n' && body[i] != '\r' {
			continue
		}
		lines = append(lines, textLine{body[start:i], start, i + 1})
		if body[i] == '\r' && i+1 < len(body) && body[i+1] == '\n' {
			i++
		}
		start = i + 1
	}
	return lines, start
}

// naive reads a whole body.
func naive(body string) []spot {
	var spots []spot
	var block []textLine
	open, done := false, uint32(0)
	lines, tail := naiveLines(body)
	for i, l := range lines {
		comment := strings.HasPrefix(l.text, ":")
		bom := i == 0 && strings.HasPrefix(l.text, "\xef\xbb\xbf")
		if bom {
			l.text = l.text[3:]
		}
		if l.text == "" && !bom {
			if open {
				ev := naiveEvent(block)
				ev.Bytes = l.end - block[0].start
				mark := BlockEnd
				if ev.HasID || ev.HasData {
					done++
					ev.Ordinal, mark = done, EventEnd
				}
				spots = append(spots, spot{l.end, mark, ev})
			}
			open, block = false, nil
			continue
		}
		if !open && !comment {
			open = true
			spots = append(spots, spot{at: l.start, mark: EventStart})
		}
		if open {
			block = append(block, l)
		}
	}
	if rest := body[tail:]; rest != "" && rest[0] != ':' && !open {
		spots = append(spots, spot{at: tail, mark: EventStart})
	}
	return spots
}

func naiveEvent(block []textLine) Event {
	var ev Event
	var data []string
	for _, l := range block {
		name, value, _ := strings.Cut(l.text, ":")
		if strings.HasPrefix(l.text, ":") {
			continue
		}
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			ev.HasData = true
			data = append(data, value)
		case "id":
			if !strings.Contains(value, "\x00") {
				ev.HasID, ev.EmptyID = true, value == ""
			}
		case "event":
			ev.Named = value != "" && value != "message"
		}
	}
	text := strings.Join(data, "\n")
	ev.Empty = ev.HasData && text == ""
	ev.Response = !ev.Named && naiveResponse([]byte(text))
	ev.Framing = !ev.Named && naiveFraming([]byte(text))
	return ev
}

// naiveResponse goes by encoding/json; what that cannot read is no response.
func naiveResponse(text []byte) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return false
	}
	_, id := object["id"]
	_, result := object["result"]
	_, failure := object["error"]
	_, method := object["method"]
	return id && (result || failure) && !method
}

func naiveFraming(text []byte) bool {
	var object map[string]json.RawMessage
	var method string
	return json.Unmarshal(text, &object) == nil && json.Unmarshal(object["method"], &method) == nil &&
		strings.HasPrefix(method, "notifications/stream/")
}

// undecided tells data on which the two may differ: the scanner does not validate
// JSON and knows no escapes in keys.
func undecided(body string) bool {
	if strings.Contains(body, `\`) {
		return true
	}
	lines, _ := naiveLines(body)
	var data []byte
	for _, l := range append(lines, textLine{}) {
		l.text = strings.TrimPrefix(l.text, "\xef\xbb\xbf")
		if l.text == "" {
			data = bytes.TrimSpace(data)
			if len(data) > 0 && !json.Valid(data) {
				return true
			}
			data = nil
		}
		if name, value, _ := strings.Cut(l.text, ":"); name == "data" {
			data = append(append(data, value...), '\n')
		}
	}
	return false
}
