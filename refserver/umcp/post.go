package umcp

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gapless-dev/gapless/refserver"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func supported(version string) bool { return slices.Contains(Versions(), version) }

// post serves one message of a client.
func (s *Server) post(r *request, body []byte) *answer {
	m, failed := decode(body)
	if failed != nil {
		return failed
	}
	req, isRequest := m.(*jsonrpc.Request)
	isCall := isRequest && req.IsCall()
	if isCall && req.Method == "initialize" {
		return s.initialize(r, req)
	}
	version, refused := r.version()
	if refused != nil {
		return refused
	}
	if r.Header[headerSession] == nil {
		if isCall {
			return s.single(r, version, req)
		}
		return &answer{status: http.StatusAccepted} // there is nothing that it could be about
	}
	ses, refused := s.session(r)
	if refused != nil {
		return refused
	}
	if isCall {
		return ses.call(r, req)
	}
	if isRequest {
		req.Extra = extra(r, "")
	}
	if !ses.push(m) {
		return unknownSession()
	}
	return &answer{status: http.StatusAccepted}
}

// decode reads a message. What is none, a batch among it, is answered with 200: HTTP did
// its part.
func decode(body []byte) (jsonrpc.Message, *answer) {
	if !json.Valid(body) {
		return nil, failure(http.StatusOK, jsonrpc.CodeParseError, "the body is not JSON")
	}
	m, err := refserver.DecodeMessage(body)
	if err != nil {
		return nil, failure(http.StatusOK, jsonrpc.CodeInvalidRequest, err.Error())
	}
	return m, nil
}

// extra is what the SDK is told of a message besides its text.
func extra(r *request, call string) *mcp.RequestExtra {
	h := r.Header.Clone()
	h.Del(headerCall)
	if call != "" {
		h.Set(headerCall, call)
	}
	return &mcp.RequestExtra{Header: h, TokenInfo: r.token}
}

// initialize opens a session if the SDK agrees.
func (s *Server) initialize(r *request, req *jsonrpc.Request) *answer {
	if r.Header[headerSession] != nil {
		return refuse(http.StatusBadRequest, "initialize opens a session of its own")
	}
	ses, refused := s.newSession(s.cfg.Nonce(), r.principal(), nil)
	if refused != nil {
		return refused
	}
	req.Params = withVersion(req.Params)
	a := ses.call(r, req)
	var agreed struct {
		Result *struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &agreed) != nil || agreed.Result == nil {
		ses.end()
		return a // refused, with the reasons in it
	}
	if !supported(agreed.Result.ProtocolVersion) {
		ses.end()
		s.cfg.Logger.Error("the server behind serves none of the versions of this contract")
		return refuse(http.StatusInternalServerError, "no protocol version can be agreed on")
	}
	if !ses.open(agreed.Result.ProtocolVersion) {
		return s.over()
	}
	return a.with(headerSession, ses.id)
}

// withVersion returns the parameters of initialize, asking the SDK for a version that is
// served here when the client asked for another.
func withVersion(params json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(params, &fields) != nil || fields == nil {
		return params // the SDK has the words for what is wrong
	}
	var asked string
	if json.Unmarshal(fields["protocolVersion"], &asked) != nil || supported(asked) {
		return params
	}
	fields["protocolVersion"] = json.RawMessage(`"` + Versions()[0] + `"`)
	out, err := json.Marshal(fields)
	if err != nil {
		return params
	}
	return out
}

// single serves a request without a session: "Requests without a session remain
// available for backwards-compatible stateless use."
func (s *Server) single(r *request, version string, req *jsonrpc.Request) *answer {
	ses, refused := s.newSession("", r.principal(), &mcp.ServerSessionState{
		InitializeParams:          &mcp.InitializeParams{ProtocolVersion: version},
		InitializedParams:         &mcp.InitializedParams{},
		NegotiatedProtocolVersion: version,
	})
	if refused != nil {
		return refused
	}
	defer ses.end()
	return ses.call(r, req)
}

// call hands a request to the SDK and waits for its response.
func (ses *session) call(r *request, req *jsonrpc.Request) *answer {
	c, refused := ses.begin(req.ID)
	if refused != nil {
		return refused
	}
	defer ses.s.forget(c)
	req.Extra = extra(r, c.name)
	if !ses.push(req) {
		return ses.s.over()
	}
	select {
	case data := <-c.reply:
		ses.touch()
		return result(http.StatusOK, data)
	case <-ses.ctx.Done():
	}
	select {
	case data := <-c.reply: // both had come
		return result(http.StatusOK, data)
	default:
		return ses.s.over()
	}
}

// over answers a request whose session ended.
func (s *Server) over() *answer {
	if s.stopping() {
		return refuse(http.StatusServiceUnavailable, "the server is shutting down")
	}
	return unknownSession()
}
