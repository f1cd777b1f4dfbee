package loadgen

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gapless-dev/gapless/loadgen/wire"
)

// modern is the revision without sessions: every request carries what initialize used to
// settle, a cut cancels the call, and nothing can be resumed (2026-07-28 changelog 9).
const modern = "2026-07-28"

// forever stands for no limit, with room to be added to.
const forever = time.Duration(math.MaxInt64 / 4)

// modernMeta is what each request says of itself, after the first member of its _meta
// (2026-07-28 basic, Per-Request Metadata).
const modernMeta = `"io.modelcontextprotocol/protocolVersion":"` + modern + `",` +
	`"io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"gapless","version":"1"}`

// modernFields repeat in the head what a request is about (2026-07-28 Streamable HTTP,
// Standard Headers).
func modernFields(method, name string) []wire.Field {
	fields := []wire.Field{{Name: "Mcp-Method", Value: method}}
	if name != "" {
		fields = append(fields, wire.Field{Name: "Mcp-Name", Value: headerValue(name)})
	}
	return fields
}

// headerValue writes a value as it may stand in a field: what is not visible ASCII with
// spaces and tabs inside, or looks as if it were encoded already, is encoded.
func headerValue(v string) string {
	plain := v == strings.Trim(v, " \t") && !(strings.HasPrefix(v, "=?base64?") && strings.HasSuffix(v, "?="))
	for i := 0; plain && i < len(v); i++ {
		plain = v[i] >= 0x20 && v[i] < 0x7f || v[i] == '\t'
	}
	if plain {
		return v
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
}

// validateModern reports what the revision does not have.
func (c Config) validateModern() error {
	if c.Modern && c.Plan.Gets() > 0 {
		return fmt.Errorf("%d GET streams: revision %s has none", c.Plan.Gets(), modern)
	}
	return nil
}

// discover asks once in a run who the target is and whether it speaks the revision, in the
// place of a handshake.
func (s *session) discover(ctx context.Context) error {
	if s.r.known.Load() == nil {
		body := []byte(`{"jsonrpc":"2.0","id":"discover","method":"server/discover","params":{"_meta":{` + modernMeta + `}}}`)
		err := s.shake(ctx, "server/discover", func() *wire.Request {
			req := s.post(body)
			req.Fields = append(req.Fields, wire.Field{Name: "MCP-Protocol-Version", Value: modern})
			req.Fields = append(req.Fields, modernFields("server/discover", "")...)
			return req
		}, s.discovered)
		if err != nil {
			return err
		}
	}
	s.target = *s.r.known.Load()
	s.later("")
	return nil
}

// discovered takes the answer to server/discover.
func (s *session) discovered(l *link, resp *wire.Response) error {
	if resp.Status != 200 {
		return &HandshakeError{resp.Status, s.r.refusal(resp, "server/discover of revision "+modern)}
	}
	who := front(resp)
	data, err := s.message(l, resp, `"discover"`, "server/discover")
	if err != nil {
		return err
	}
	var m struct {
		Result struct {
			SupportedVersions []string
			Meta              struct {
				Server struct{ Name, Version string } `json:"io.modelcontextprotocol/serverInfo"`
			} `json:"_meta"`
		}
		Error *rpcError
	}
	switch err := json.Unmarshal(data, &m); {
	case err != nil:
		return &HandshakeError{resp.Status, "the answer to server/discover is not JSON"}
	case m.Error != nil:
		return &HandshakeError{resp.Status, fmt.Sprintf("it does not speak %s: %v", modern, m.Error)}
	case !slices.Contains(m.Result.SupportedVersions, modern):
		return &HandshakeError{resp.Status, fmt.Sprintf("it does not speak %s but %.100q", modern, m.Result.SupportedVersions)}
	}
	s.r.known.Store(&Target{Name: m.Result.Meta.Server.Name, Version: m.Result.Meta.Server.Version, Revision: modern, Front: who})
	return nil
}

// resultType is what is wrong with the type of a result, "" for a complete one (2026-07-28
// basic, Responses: every result says what it is, and an unknown one is invalid).
func resultType(data []byte) string {
	var m struct {
		Result *struct{ ResultType *string }
	}
	if err := json.Unmarshal(data, &m); err != nil || m.Result == nil {
		return ""
	}
	switch t := m.Result.ResultType; {
	case t == nil:
		return "a result without resultType"
	case *t != "complete":
		return fmt.Sprintf("resultType %.40q instead of \"complete\"", *t)
	}
	return ""
}
