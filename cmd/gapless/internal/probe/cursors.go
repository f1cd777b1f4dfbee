package probe

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// malformed has characters that an id may have and that none is made of.
const malformed = "!~not:a|cursor~!"

// longID is longer than any id and shorter than what a header may be.
const longID = 4 << 10

// beyond is how far in the future an id is asked for.
const beyond = 5000

// strangeCursors asks for what follows ids that do not belong where they are asked.
func (x *run) strangeCursors(ctx context.Context, k *control, cursor string) error {
	last := cursor
	for _, e := range k.all {
		if e.hasID {
			last = e.id
		}
	}
	future, counted := later(last)
	unknown := mutate(cursor)
	for _, q := range []struct {
		row, cursor, missing string
		edit                 edit
	}{
		{"cursor-unknown", known(unknown, cursor, k.all), "ids are too plain to make up one of their shape", noEdit},
		{"cursor-malformed", malformed, "", noEdit},
		{"cursor-future", map[bool]string{true: future}[counted], "ids end in no number", noEdit},
		{"cursor-empty", "-", "", func(r *client.Request) { r.Forge = emptyCursor }},
		{"cursor-long", strings.Repeat("g", longID), "", noEdit},
	} {
		if q.cursor == "" {
			x.sheet.set(q.row, Unsure, "%s", q.missing)
			continue
		}
		st, err := x.get(ctx, k.s, q.cursor, q.edit)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case x.spared(err, q.row):
			continue
		case err != nil:
			x.sheet.set(q.row, Deviating, "%s", client.Words(err))
			continue
		}
		st.drain(x.Quiet, time.Now().Add(x.Quiet))
		st.close()
		x.sheet.yes(q.row, st.status < 500 && len(st.carried()) == 0, "%s%s", st.short(), remark(st, q.row))
	}
	return x.otherSession(ctx, k, cursor)
}

func noEdit(*client.Request) {}

// remark adds what an answer to a bad cursor means for a client.
func remark(st *stream, row string) string {
	switch {
	case row == "cursor-empty": // it may be taken for none
	case st.status == 404:
		return "; a client takes that for the end of its session"
	case st.sse && st.open() && len(st.carried()) == 0:
		return "; a client waits in vain"
	}
	return ""
}

// known returns a cursor that was made up, "" if the server may have given it.
func known(made, from string, all []event) string {
	differ := 0
	for i := range min(len(made), len(from)) {
		differ += b2i(made[i] != from[i])
	}
	if differ < 4 || count(all, func(e event) bool { return e.id == made }) > 0 {
		return ""
	}
	return made
}

// later returns an id that a stream may reach after some thousand events.
func later(id string) (string, bool) {
	n := len(id)
	for n > 0 && '0' <= id[n-1] && id[n-1] <= '9' {
		n--
	}
	v, err := strconv.ParseUint(id[n:], 10, 32)
	if err != nil {
		return "", false
	}
	return id[:n] + strconv.FormatUint(v+beyond, 10), true
}

// emptyCursor makes the value of Last-Event-ID empty, which no client sends.
func emptyCursor(request []byte) []byte {
	return bytes.Replace(request, []byte("Last-Event-ID: -\r\n"), []byte("Last-Event-ID: \r\n"), 1)
}

// otherSession asks for the call from a session that did not make it.
func (x *run) otherSession(ctx context.Context, k *control, cursor string) error {
	if !x.sessions {
		x.sheet.set("cursor-other-session", NotOffered, "no session ids")
		return nil
	}
	s, err := x.session(ctx, x.revision)
	if err != nil {
		return err
	}
	st, err := x.get(ctx, s, cursor)
	if err != nil {
		return err
	}
	defer st.close()
	st.drain(x.Quiet, time.Now().Add(2*x.Quiet))
	hashes := map[uint64]bool{}
	for _, e := range carried(k.all) {
		hashes[e.hash] = true
	}
	if n := st.count(func(e event) bool { return !e.empty && hashes[e.hash] }); n > 0 {
		x.sheet.set("cursor-other-session", Deviating, "200, replays %s of the other session", several(n, "message"))
		return nil
	}
	x.sheet.set("cursor-other-session", Conforming, "%s%s", st.short(), remark(st, ""))
	return nil
}
